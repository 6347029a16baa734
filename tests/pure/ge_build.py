"""Small GE graphs for tests: a ModelDef built op by op, and the captured graphs with their symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import graphs
from torchair_autofuse import dtypes
from torchair_autofuse.dtypes import DType
from torchair_autofuse.ge.graph import Graph
from torchair_autofuse.ge.infer import infer
from torchair_autofuse.ge.proto import ge_ir
from torchair_autofuse.ge.reader import read
from torchair_autofuse.ge.writer import encode_attr
from torchair_autofuse.loop import expr
from torchair_autofuse.loop.expr import Expr


class GraphBuilder:
    """Adds ops to one ModelDef; every method returns the first output as ``name:0``."""

    def __init__(self, name: str = "graph") -> None:
        self.model = ge_ir().ModelDef()
        self.graph = self.model.graph.add(name=name)
        self._count = 0

    def data(self, shape: Sequence[int], dtype: DType = dtypes.F32, *, host: bool = False, name: str = "") -> str:
        index = sum(op.type == "Data" for op in self.graph.op)
        op = self.graph.op.add(name=name or f"arg{index}", type="Data")
        op.attr["index"].i = index
        for desc, label in ((op.input_desc.add(), "x"), (op.output_desc.add(), "y")):
            _describe(desc, label, dtype, shape)
            desc.device_type = "CPU" if host else "NPU"
        return f"{op.name}:0"

    def const(self, value: Any, dtype: DType = dtypes.I64) -> str:
        array = np.asarray(value, dtype=dtype.numpy)
        op = self._add("Const", "")
        _describe(op.attr["value"].t.desc, "", dtype, array.shape)
        op.attr["value"].t.data = array.tobytes()
        _describe(op.output_desc.add(), "", dtype, array.shape)
        return f"{op.name}:0"

    def op(
        self, kind: str, *inputs: str, outputs: int = 1, names: Sequence[str] = (), name: str = "", **attrs: Any
    ) -> str:
        """``inputs`` are ``node:index``, "" for an absent one, or ``node:-1`` for a control edge."""
        op = self._add(kind, name)
        data = [t for t in inputs if not t.endswith(":-1")]
        op.input.extend(inputs)
        for i, text in enumerate(data):
            desc = op.input_desc.add(name=names[i] if i < len(names) else f"x{i}")
            if not text:
                desc.attr["_is_unfed_optional"].i = 1
        for i in range(outputs):
            op.output_desc.add(name=f"y{i}", dtype=1)  # TorchAir's own descs are as empty
        for key, value in attrs.items():
            encode_attr(op.attr[key], value)
        return f"{op.name}:0"

    def output(self, *inputs: str) -> None:
        op = self.graph.op.add(name="NetOutput", type="NetOutput")
        op.input.extend(inputs)
        for i in range(sum(not t.endswith(":-1") for t in inputs)):
            op.input_desc.add(name=f"input{i}", dtype=1)

    def read(self) -> Graph:
        return read(self.model)

    def _add(self, kind: str, name: str) -> Any:
        self._count += 1
        return self.graph.op.add(name=name or f"{kind}_{self._count}", type=kind)


def _describe(desc: Any, name: str, dtype: DType, shape: Sequence[int]) -> None:
    desc.name, desc.dtype, desc.layout = name, dtype.ge_proto, "ND"
    desc.shape.SetInParent()
    desc.shape.dim.extend(int(d) for d in shape)


def captured_symbols(name: str) -> tuple[dict[int, tuple[Expr, ...]], dict[str, int]]:
    """Symbolic dims per Data index of a captured graph, and the value each symbol had at the recorded run."""
    manifest = graphs.manifests()[name]
    dims: dict[int, tuple[Expr, ...]] = {}
    sizes: dict[str, int] = {}
    for spec in manifest["h1"]["inputs"]:
        shape = tuple(int(d) if d.isdigit() else expr.parse(d) for d in spec["shape"])
        dims[spec["ge"]] = shape
        for d, actual in zip(shape, manifest["run_inputs"][spec["ge"]]["shape"]):
            if not isinstance(d, int) and d.is_Symbol:
                sizes[d.name] = actual
    return dims, sizes


def captured(name: str) -> tuple[Graph, Mapping[str, int]]:
    """A captured graph after inference, and the sizes of its symbols at the recorded run."""
    dims, sizes = captured_symbols(name)
    return infer(read(graphs.model_def(name)), dims, minimum=2), sizes
