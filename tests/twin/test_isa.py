"""What schedule.isa says is supported is: every op, cast and constant of its tables in kernels that build and run."""

from __future__ import annotations

import pytest
from kernel_runner import runner, scheduled

from torchair_autofuse.dtypes import BOOL, F32, F64, U16, U32, U64, by_name
from torchair_autofuse.loop.ops import POINTWISE
from torchair_autofuse.messages import Reason
from torchair_autofuse.schedule import isa

TYPES = [by_name(n) for n in ("f32", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool")]
UNKNOWN = (F64, U16, U32, U64)  # no lowering makes them
MODES = ("rint", "trunc", "floor", "ceil", "round")
SOCS = ("Ascend910B1", "Ascend950PR_9599")


def ops_text(op_list, dtype):
    """One output per op; values of ``dtype`` x, y and a bool b."""
    lines = [f"  x: {dtype} = load i0[a0]", f"  y: {dtype} = load i1[a0]", "  b: bool = load i2[a0]"]
    params = [f"in i0: {dtype}[s0]", f"in i1: {dtype}[s0]", "in i2: bool[s0]"]
    stores = []
    for k, op in enumerate(op_list):
        args = "b, x, y" if op.name == "select" else ", ".join("xy"[: op.arity])
        result = BOOL if op.result == "bool" else dtype
        lines.append(f"  v{k}: {result} = {op.name}({args})")
        params.append(f"out y{k}: {result}[s0]")
        stores.append(f"  store y{k}[a0] = v{k}")
    head = f"kernel ops_{dtype}({', '.join(params)}) where s0 = i0.0"
    return "\n".join([head, "nest n0 [a0: s0]", *lines, *stores, ""])


def parts(items, size):
    return [items[i : i + size] for i in range(0, len(items), size)]


def allowed(op, dtype):
    """Whether the IR has the op for the type (floats compute in f32)."""
    return dtype.kind in op.kinds and (dtype == F32 or not dtype.is_float or op.name == "select")


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("dtype", [t for t in TYPES if t in isa.OPS], ids=str)
def test_supported_ops_run(dtype, soc):
    supported = [op for op in POINTWISE.values() if isa.supports_op(op.name, dtype) is None]
    assert all(allowed(op, dtype) for op in supported)
    for some in parts(supported, 14):
        for seed in range(2):
            runner(ops_text(some, dtype), soc).check({"s0": 300}, seed=seed, special=seed > 0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_other_ops_are_refused(dtype):
    for op in POINTWISE.values():
        if allowed(op, dtype) and isa.supports_op(op.name, dtype) is not None:
            made = scheduled(ops_text([op], dtype))
            assert isinstance(made, Reason) and made.code == "AF202" and op.name in made.text, (op, made)


def casts_text(source, pairs):
    lines, params, stores = [f"  x: {source} = load i0[a0]"], [f"in i0: {source}[s0]"], []
    for k, (target, mode) in enumerate(pairs):
        lines.append(f"  v{k}: {target} = cast(x, {mode})")
        params.append(f"out y{k}: {target}[s0]")
        stores.append(f"  store y{k}[a0] = v{k}")
    head = f"kernel casts_{source}({', '.join(params)}) where s0 = i0.0"
    return "\n".join([head, "nest n0 [a0: s0]", *lines, *stores, ""])


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_casts(source):
    """All pairs: those in the table run in every mode the IR has for them, the others are refused."""
    pairs = []
    for target in TYPES:
        modes = MODES if source.is_float and target.is_int else ("rint",)
        if isa.supports_cast(source, target) is None:
            pairs += [(target, mode) for mode in modes]
            continue
        made = scheduled(casts_text(source, [(target, "rint")]))
        assert isinstance(made, Reason) and made.code == "AF202", (source, target, made)
    assert pairs or source == BOOL
    for some in parts(pairs, 12):
        for special in (False, source == F32):
            runner(casts_text(source, some)).check({"s0": 300}, special=special)


def test_constants_of_every_type():
    for dtype in (*TYPES, *UNKNOWN):
        value = {"float": "1.5", "bool": "true"}.get(dtype.kind, "100")
        text = f"kernel c(out y: {dtype}[40])\nnest n0 [a0: 40]\n  v: {dtype} = const {value}\n  store y[a0] = v\n"
        supported = isa.supports_const(value == "true" or float(value), dtype) is None
        if supported:
            runner(text).check({})
        else:
            assert isinstance(scheduled(text), Reason), dtype
        assert supported == (dtype not in UNKNOWN)
