"""Large GE graphs: transformer blocks of any number, built op by op, and captured graphs one after the other.

Blocks differ in the width of their MLP and in their attention scale, so no two have the same kernels by chance. How
planning grows is measured on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import graphs
from torchair_autofuse.dtypes import F32, I64, DType
from torchair_autofuse.ge.proto import ge_ir
from torchair_autofuse.ge.writer import encode_attr

BATCH, ROWS, WIDTH, HEADS = 2, 128, 256, 4
_INPUTS = {
    "LayerNormV4": ("x", "normalized_shape", "gamma", "beta"), "MatMul": ("x1", "x2", "bias"), "Gelu": ("x",),
    "BatchMatMul": ("x1", "x2"), "Add": ("x1", "x2"), "Mul": ("x1", "x2"), "SoftmaxV2": ("x",),
    "Reshape": ("x", "shape"), "Transpose": ("x", "perm"),
}  # fmt: skip
_OUTPUTS = {"LayerNormV4": ("y", "mean", "rstd")}


def transformer(blocks: int) -> Any:
    """The ModelDef of ``blocks`` blocks on x f32[2,128,256] with a mask f32[1,1,128,128]; about 60 nodes each.

    Pre-norm attention with four heads (bias, scale, mask, softmax) and a gelu MLP, with residuals, as TorchAir spells
    them. Weights are Data. Raises ValueError for fewer than one block.
    """
    if blocks < 1:
        raise ValueError(f"a graph has at least one block, not {blocks}")
    g = _Builder(f"transformer_{blocks}")
    x, mask = g.data(BATCH, ROWS, WIDTH), g.data(1, 1, ROWS, ROWS)
    for i in range(blocks):
        x = g.op("Add", x, _attention(g, g.norm(x), mask, 0.125 + i / 1024))
        x = g.op("Add", x, _mlp(g, g.norm(x), 4 * WIDTH + 32 * i))
    g.output(x)
    return g.model


def _attention(g: _Builder, x: str, mask: str, scale: float) -> str:
    depth = WIDTH // HEADS
    heads = (BATCH, ROWS, HEADS, depth)
    q, k, v = (g.permute(g.reshape(g.linear(x, WIDTH, WIDTH), *heads), 0, 2, 1, 3) for _ in range(3))
    flat = (BATCH * HEADS, ROWS, depth)
    scores = g.op("BatchMatMul", g.reshape(q, *flat), g.reshape(k, *flat), adj_x1=False, adj_x2=True)
    scores = g.op("Mul", g.reshape(scores, BATCH, HEADS, ROWS, ROWS), g.const(scale, F32))
    weights = g.op("SoftmaxV2", g.op("Add", scores, mask), axes=[-1], half_to_float=False)
    weights = g.reshape(weights, BATCH * HEADS, ROWS, ROWS)
    y = g.op("BatchMatMul", weights, g.reshape(v, *flat), adj_x1=False, adj_x2=False)
    y = g.permute(g.reshape(y, BATCH, HEADS, ROWS, depth), 0, 2, 1, 3)
    return g.linear(g.reshape(y, BATCH, ROWS, WIDTH), WIDTH, WIDTH)


def _mlp(g: _Builder, x: str, width: int) -> str:
    return g.linear(g.op("Gelu", g.linear(x, WIDTH, width)), width, WIDTH)


CAPTURED = (
    "bert__static__g0", "llama__static__g0", "t5__static__g0", "mixtral__static__g0", "resnetblock2d__static__g0",
    "train_bert__static__g1", "gpt2__static__g0", "dlrm__static__g0", "vit__static__g0", "ce_focal_loss__static__g0",
)  # fmt: skip
"""What :func:`captured_blocks` repeats: models of several kinds, one with its gradients."""


def captured_blocks(nodes: int) -> Any:
    """A ModelDef of at least ``nodes`` ops: the graphs of CAPTURED in turn, each with tensors of its own."""
    model = ge_ir().ModelDef(name=f"captured_{nodes}")
    graph = model.graph.add(name=model.name)
    ends: list[str] = []
    data = copies = 0
    while len(graph.op) < nodes:
        block = ge_ir().ModelDef.FromString(graphs.model_def(CAPTURED[copies % len(CAPTURED)])).graph[0]
        shift = data
        for op in block.op:
            ends += [f"c{copies}_{text}" for text in op.input] if op.type == "NetOutput" else []
            if op.type == "NetOutput":
                continue
            added = graph.op.add()
            added.CopyFrom(op)
            added.name = f"c{copies}_{op.name}"
            del added.input[:]
            added.input.extend(f"c{copies}_{text}" if text else "" for text in op.input)
            if op.type in ("Data", "RefData"):
                added.attr["index"].i += shift
                data += 1
        copies += 1
    last = graph.op.add(name="NetOutput", type="NetOutput")
    last.input.extend(dict.fromkeys(ends))
    for i in range(len(last.input)):
        last.input_desc.add(name=f"input{i}")
    return model


class _Builder:
    """Adds ops to one ModelDef; a tensor is its text ``node:0``."""

    def __init__(self, name: str) -> None:
        self.model = ge_ir().ModelDef(name=name)
        self._graph = self.model.graph.add(name=name)
        self._data = 0

    def data(self, *shape: int) -> str:
        op = self._graph.op.add(name=f"arg{self._data}", type="Data")
        op.attr["index"].i = self._data
        self._data += 1
        for desc, label in ((op.input_desc.add(), "x"), (op.output_desc.add(), "y")):
            _describe(desc, label, F32, shape)
            desc.device_type = "NPU"
        return f"{op.name}:0"

    def const(self, value: Any, dtype: DType = I64) -> str:
        array = np.asarray(value, dtype=dtype.numpy)
        op = self._node("Const")
        _describe(op.attr["value"].t.desc, "", dtype, array.shape)
        op.attr["value"].t.data = array.tobytes()
        _describe(op.output_desc.add(), "", dtype, array.shape)
        return f"{op.name}:0"

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        op = self._node(kind)
        op.input.extend(inputs)
        for text, label in zip(inputs, _INPUTS[kind]):
            desc = op.input_desc.add(name=label)
            if not text:
                desc.attr["_is_unfed_optional"].i = 1
        for label in _OUTPUTS.get(kind, ("y",)):
            op.output_desc.add(name=label, dtype=F32.ge_proto)  # no shape: TorchAir's own say as little
        for key, value in attrs.items():
            encode_attr(op.attr[key], value)
        return f"{op.name}:0"

    def output(self, *tensors: str) -> None:
        op = self._graph.op.add(name="NetOutput", type="NetOutput")
        op.input.extend(tensors)
        for i in range(len(tensors)):
            op.input_desc.add(name=f"input{i}", dtype=F32.ge_proto)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.const(shape), axis=0, num_axes=-1)

    def permute(self, x: str, *order: int) -> str:
        return self.op("Transpose", x, self.const(order))

    def norm(self, x: str) -> str:
        return self.op("LayerNormV4", x, self.const([WIDTH]), self.data(WIDTH), self.data(WIDTH), epsilon=1e-5)

    def linear(self, x: str, width_in: int, width_out: int) -> str:
        """x @ w + b on the rows of x [batch, rows, width_in], the bias as an op of its own."""
        flat = self.reshape(x, BATCH * ROWS, width_in)
        y = self.op("MatMul", flat, self.data(width_in, width_out), "", transpose_x1=False, transpose_x2=False)
        return self.op("Add", self.reshape(y, BATCH, ROWS, width_out), self.data(width_out))

    def _node(self, kind: str) -> Any:
        return self._graph.op.add(name=f"{kind}_{len(self._graph.op)}", type=kind)


def _describe(desc: Any, name: str, dtype: DType, shape: Sequence[int]) -> None:
    desc.name, desc.dtype, desc.layout = name, dtype.ge_proto, "ND"
    desc.shape.SetInParent()
    desc.shape.dim.extend(int(d) for d in shape)
