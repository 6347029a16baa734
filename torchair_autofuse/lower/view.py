"""Views: the result holds the elements of the first input, re-indexed. Nothing is computed."""

from __future__ import annotations

from torchair_autofuse.loop import expr
from torchair_autofuse.lower.checks import ALL, all_of, dims, operands, refuse, same_dims, shape_text
from torchair_autofuse.lower.registry import OpView, Rule, register
from torchair_autofuse.messages import Reason

_DATA = operands(ALL, data=(0,))


def _same_elements(op: OpView) -> Reason | None:
    info = op.inputs[0]
    assert info is not None
    before, after = dims(info), dims(op.outputs[0])
    if expr.equal(expr.product(before), expr.product(after)):
        return None
    text = f"{shape_text(before)} and {shape_text(after)} are not known to have equally many elements"
    return refuse(op, text, "AF205")


def _same_shape(op: OpView) -> Reason | None:
    info = op.inputs[0]
    assert info is not None
    if same_dims(dims(info), dims(op.outputs[0])):
        return None
    return refuse(op, f"result {shape_text(dims(op.outputs[0]))} of {shape_text(dims(info))}", "AF204")


def _broadcasts(op: OpView) -> Reason | None:
    """Aligned from the right, each dim is 1 or stays."""
    info = op.inputs[0]
    assert info is not None
    before, after = dims(info), dims(op.outputs[0])
    offset = len(after) - len(before)
    if offset >= 0 and all(d == 1 or expr.equal(d, after[k + offset]) for k, d in enumerate(before)):
        return None
    text = f"dims {shape_text(before)} and {shape_text(after)} are not known to be equal or one"
    return refuse(op, text, "AF204")


def _repeats(op: OpView) -> Reason | None:
    """A dim of size one may be repeated, any other only once: otherwise the index is a remainder, not a stride."""
    reason = _broadcasts(op)
    return None if reason is None else Reason("AF218", f"{reason.text}; a fused op repeats dims of size one only")


for _type in ("Reshape", "Squeeze", "SqueezeV2", "SqueezeV3", "Unsqueeze", "UnsqueezeV2", "UnsqueezeV3", "ExpandDims"):
    register(Rule(_type, "view", all_of(_DATA, _same_elements), data_inputs=(0,), view="reshape"))
for _type in ("Flatten", "FlattenV2"):
    register(Rule(_type, "view", all_of(_DATA, _same_elements), data_inputs=(0,), view="reshape"))
for _type in ("Identity", "TensorMove"):  # the result of a fused op is a tensor of its own: a copy needs no more
    register(Rule(_type, "view", all_of(_DATA, _same_shape), data_inputs=(0,), view="reshape"))
for _type in ("BroadcastTo", "BroadcastToD", "Expand", "ExpandD"):
    register(Rule(_type, "view", all_of(_DATA, _broadcasts), data_inputs=(0,), view="broadcast"))
for _type in ("Tile", "TileD"):
    register(Rule(_type, "view", all_of(_DATA, _repeats), data_inputs=(0,), view="broadcast"))
