"""The folder that reproduces one wrong fused op, and what its ``repro.py`` does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from torchair_autofuse.host.executor import FUSED_PREFIX
from torchair_autofuse.messages import Reason
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.trust.check import compare_op, part_executor
from torchair_autofuse.trust.exact import run_unfused
from torchair_autofuse.trust.search import MadeOp
from torchair_autofuse.trust.subgraph import subgraph

OK, WRONG, USAGE, RULE, BUILD = 0, 1, 2, 3, 4
"""Exit codes of repro.py, as those of an op's run.py: same, different, cannot be run, a broken rule, no build."""

_SCRIPT = '''"""Runs {op} and the GE nodes that it replaces on the inputs of inputs.npz, and compares.

Exit codes: 0 they agree, 1 they differ, 2 something is missing, 3 the kernel breaks a rule of the chip, 4 it does not
build.
"""

import sys
from pathlib import Path

import torchair_autofuse  # first: it makes torch importable without CANN
from torchair_autofuse.trust.repro import main

sys.exit(main(Path(__file__).parent))
'''

_README = """One fused op that makes a model wrong.

op:    {op}
graph: {graph}
nodes: {nodes}
wrong: {why}
{how}
python repro.py    builds the kernel.cpp below as it stands, runs it and the nodes it replaces on the inputs of
                   inputs.npz, and compares; works without an NPU

before.pb, .pbtxt  the nodes it replaces as a GE graph (ModelDef)
after.pb, .pbtxt   the fused op as a GE graph
inputs.npz         the inputs of before.pb, input_0, input_1, ...; the first ones are the fused op's.
                   bfloat16 is kept as the int16 of its bits{without}
{folder}/
                   its definition, kernel.cpp, loop-level IR and run.py, which compares the kernel with that IR:
                   where run.py finds nothing wrong, it is the lowering of the nodes to that IR that is

To work around it, keep its nodes out of fusion: a skip list with these names, or
torchair_autofuse.options(skip_nodes={{...}}).
"""


def write_static(folder: Path, result: Any, index: int) -> None:
    """Writes what is known before the op has run: both graphs and the artefacts. ``result``: the FusionResult that the
    op is in, at ``index``. Raises OSError or ArtefactError."""
    from google.protobuf import text_format

    from torchair_autofuse.opdef import artefact

    made, op = result.generated[index], result.ops[index]
    parts = subgraph(result.before, result.graph, made, f"{made.op_type}_{index}")
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)  # others must not be able to change the kernel that repro.py builds
    for stem, model in (("before", parts.before), ("after", parts.after)):
        (folder / f"{stem}.pb").write_bytes(model.SerializeToString(deterministic=True))
        (folder / f"{stem}.pbtxt").write_text(text_format.MessageToString(model, as_utf8=True), encoding="utf-8")
    target = chip(result.report.soc)
    assert not isinstance(target, Reason), "it was fused for it"
    artefact.write(folder, made, target, op=op, cache=False)
    (folder / "repro.py").write_text(_SCRIPT.format(op=made.op_type), encoding="utf-8")


def write_inputs(folder: Path, inputs: Sequence[torch.Tensor]) -> None:
    """Writes the inputs of the op's nodes, in the order of ``before.pb``'s Data."""
    arrays: dict[str, Any] = {f"input_{i}": _to_numpy(t) for i, t in enumerate(inputs)}
    np.savez_compressed(folder / "inputs.npz", **arrays)


def write_readme(folder: Path, op: MadeOp, why: str, command: str = "") -> None:
    """Writes README.txt. ``why``: what is wrong; ``command``: what was bisected, "" where it was no command."""
    has_inputs = (folder / "inputs.npz").is_file()
    text = _README.format(
        op=op.op_type, graph=op.graph, nodes=", ".join(op.nodes), why=why, folder=f"ops/{op.op_type}",
        how=f"found by: {command}\n" if command else "",
        without="" if has_inputs
        else ".\n                   It is missing: the op was never run to its end, or on a device",
    )  # fmt: skip
    (folder / "README.txt").write_text(text, encoding="utf-8")


def main(folder: Path) -> int:
    """What repro.py does; returns its exit code and prints what was compared."""
    from torchair_autofuse.opdef.definition import Definition
    from torchair_autofuse.opdef.errors import OpDefError
    from torchair_autofuse.opdef.run import build_folder, run
    from torchair_autofuse.opdef.store import load
    from torchair_autofuse.twin.errors import TwinError, TwinViolation

    try:
        inputs = _read_inputs(folder)
        (place,) = (folder / "ops").glob(f"{FUSED_PREFIX}*")
        made = Definition.of(load(place))
        print(f"{made.op.op_type} on the twin of {made.schedule.soc}")
        kernel = build_folder(made, place)
        own = {p.name: _to_numpy(t).view(p.dtype.numpy) for p, t in zip(made.kernel.inputs, inputs)}
        symbols = made.symbols(tuple(tuple(t.shape) for t in inputs[: len(own)]))
        result = run(made, kernel, symbols, own)
    except TwinViolation as error:
        print(error)
        print(f"rule: {error.rule}")
        return RULE
    except TwinError as error:
        print(error, file=sys.stderr)
        return BUILD
    except (OpDefError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    executor = part_executor(_model(folder / "before.pb"))
    if executor is None:
        print("error: before.pb has ops that the host executor does not know", file=sys.stderr)
        return USAGE
    outputs = [_to_torch(result.outputs[p.name], p.dtype.name) for p in made.kernel.outputs]
    checks = compare_op(executor, inputs, run_unfused(executor, inputs), outputs)
    for param, check in zip(made.kernel.outputs, checks):
        print(f"{check.name}: {check.bad} of {check.size} wrong, max abs error {check.between.max_abs:.3g}")
        if check.first is not None:
            print(f"  first {check.first}")
        print(f"  kernel against its own loop.txt: {result.differences[param.name]}")
    good = all(check.ok for check in checks)
    print("ok: the fused op gives what its nodes give" if good else "WRONG")
    return OK if good else WRONG


def _read_inputs(folder: Path) -> list[torch.Tensor]:
    path = folder / "inputs.npz"
    if not path.is_file():
        raise ValueError(f"{path} is missing: the op was never run to its end, or on a device; see run.py below ops/")
    data = [op for op in _model(folder / "before.pb").graph[0].op if op.type == "Data"]
    from torchair_autofuse import dtypes

    with np.load(path) as arrays:
        found = []
        for i, op in enumerate(data):
            dtype = dtypes.from_ge_proto(op.output_desc[0].dtype)
            found.append(_to_torch(arrays[f"input_{i}"], dtype.name if dtype is not None else ""))
        return found


def _model(path: Path) -> Any:
    from torchair_autofuse.ge.reader import parse

    return parse(path.read_bytes())


def _to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """An array of its own; bfloat16, which numpy lacks, as the int16 of its bits."""
    raw = tensor.detach().cpu().contiguous()
    return np.array((raw.view(torch.int16) if raw.dtype == torch.bfloat16 else raw).numpy())


def _to_torch(array: np.ndarray[Any, np.dtype[Any]], dtype: str) -> torch.Tensor:
    if dtype == "bf16":
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, order="C"))
