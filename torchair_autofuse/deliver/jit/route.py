"""Makes fused ops available to GE in this process, and says which cannot be."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.deliver.jit.device import DeviceKernel, compile_all, device_kernel
from torchair_autofuse.deliver.jit.runtime import Runtime, build, load
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.store import to_bytes
from torchair_autofuse.options import Options
from torchair_autofuse.soc.chip import chip

_lock = Lock()  # one graph at a time: the next one finds what this one made
_results: dict[tuple[str, str, bool, bytes], Reason | None] = {}
"""(cache and CANN, SoC, dynamic, definition) -> the answer, which is final for a process."""


def unavailable(ops: Sequence[Any], options: Options, cann: Cann, *, dynamic: bool = True) -> Mapping[str, Reason]:
    """Compiles and registers ``ops`` (FusedOpDef messages) and returns why each of the others is not to be had, by op
    type. AF503: its device binary; AF504: the runtime library, or GE did not take the op; AF306: the SoC.

    ``dynamic``: whether GE may run the graph with other shapes than those it is compiled with. Ops of a static graph
    let GE move their inputs and outputs (from CANN 9.2), and cannot be used in a dynamic graph of the same process.

    What is registered stays so for the process; what failed is not tried again in it. Nothing that this machine lacks
    raises.
    """
    root = Path(options.cache_root())
    keys = {str(op.op_type): (f"{root}@{cann.home}", options.soc, dynamic, to_bytes(op)) for op in ops}
    with _lock:
        new = {str(op.op_type): op for op in ops if keys[str(op.op_type)] not in _results}
        if new:
            found = _deliver(list(new.values()), options.soc, cann, root, dynamic)
            _results.update((keys[op_type], found.get(op_type)) for op_type in new)
        answers = {op_type: _results[key] for op_type, key in keys.items()}
    return {op_type: reason for op_type, reason in answers.items() if reason is not None}


def _deliver(ops: Sequence[Any], soc: str, cann: Cann, root: Path, dynamic: bool) -> dict[str, Reason]:
    """Op type -> why it is not to be had, for those that are not."""
    target = chip(soc)
    if isinstance(target, Reason):
        return {str(op.op_type): target for op in ops}
    runtime = _runtime(cann, root)
    if isinstance(runtime, Reason):
        return {str(op.op_type): runtime for op in ops}
    missing: dict[str, Reason] = {}
    kernels: list[DeviceKernel] = []
    for op in ops:
        made = device_kernel(op, target.soc)
        if isinstance(made, Reason):
            missing[str(op.op_type)] = made
        else:
            kernels.append(made)
    for kernel, binary in zip(kernels, compile_all(kernels, cann, root)):
        reason = binary if isinstance(binary, Reason) else _register(runtime, kernel, binary, dynamic)
        if reason is not None:
            missing[str(kernel.op.op_type)] = reason
    return missing


def _runtime(cann: Cann, root: Path) -> Runtime | Reason:
    path = build(cann, root)
    return path if isinstance(path, Reason) else load(path)


def _register(runtime: Runtime, kernel: DeviceKernel, binary: Path, dynamic: bool) -> Reason | None:
    problem = runtime.register(to_bytes(kernel.op), binary, kernel.soc, kernel.meets, not dynamic)
    if problem is not None:
        return Reason("AF504", problem)
    op_type = str(kernel.op.op_type)
    if _ge_status(op_type) == "ERROR":
        return Reason("AF504", f"{op_type} was registered, but GE does not know it: two copies of GE in one process?")
    return None


def _ge_status(op_type: str) -> str | None:
    """What TorchAir says of an op type in GE's registry: "SUCCESS", "ERROR", or None where it cannot say."""
    for name in ("torch_npu.dynamo.torchair.core._torchair", "torchair.core._torchair"):
        query = getattr(sys.modules.get(name), "get_registered_ir_def", None)
        if query is not None:
            status = query(op_type)[0]
            return None if status is None else str(status)
    return None
