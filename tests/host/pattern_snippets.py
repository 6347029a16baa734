"""The examples of the named patterns as functions with inputs, and their GE graphs as TorchAir makes them."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from torchair_autofuse.plan.patterns import Pattern

DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8, "u8": torch.uint8,
    "i32": torch.int32, "i64": torch.int64, "bool": torch.bool,
}  # fmt: skip


def inputs_of(pattern: Pattern) -> dict[str, torch.Tensor]:
    """``"x, y: f32[8,64]; v: f32+[64]"`` as tensors; ``+``: positive numbers."""
    torch.manual_seed(0)
    found: dict[str, torch.Tensor] = {}
    for part in pattern.inputs.split(";"):
        names, _, spec = part.partition(":")
        match = re.fullmatch(r"\s*(\w+)(\+?)\[([\d,]*)\]\s*", spec)
        assert match is not None, f"{pattern.name}: {part!r}"
        dtype, shape = DTYPES[match[1]], [int(d) for d in match[3].split(",") if d]
        for name in names.split(","):
            if dtype.is_floating_point:
                values = torch.rand(shape) + 0.5 if match[2] else torch.randn(shape)
                found[name.strip()] = values.to(dtype)
            else:
                found[name.strip()] = torch.randint(0, 2, shape).to(dtype)
    return found


def function_of(pattern: Pattern) -> Callable[..., Any]:
    """The example as a function of its inputs: its last line is what it returns."""
    body = ast.parse(pattern.example).body
    assert isinstance(body[-1], ast.Expr), pattern.name
    body[-1] = ast.Return(body[-1].value)
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(n) for n in inputs_of(pattern)], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function = ast.FunctionDef(name="example", args=arguments, body=body, decorator_list=[], type_params=[])
    module = ast.fix_missing_locations(ast.Module(body=[function], type_ignores=[]))
    names: dict[str, Any] = {"torch": torch, "F": F, "math": math}
    exec(compile(module, pattern.name, "exec"), names)
    found: Callable[..., Any] = names["example"]
    return found
