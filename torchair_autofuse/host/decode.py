"""Protobuf values of a GraphDef as Python values and torch tensors."""

from __future__ import annotations

from typing import Any

import torch

TORCH_OF_C: dict[int, torch.dtype] = {
    0: torch.float32, 1: torch.float16, 2: torch.int8, 3: torch.int32, 4: torch.uint8, 6: torch.int16,
    7: torch.uint16, 8: torch.uint32, 9: torch.int64, 10: torch.uint64, 11: torch.float64, 12: torch.bool,
    16: torch.complex64, 17: torch.complex128, 27: torch.bfloat16,
}  # fmt: skip
"""GE's C enum (``Cast.dst_type``, ``_output_dtypes``) -> torch dtype."""

TORCH_OF_PROTO: dict[int, torch.dtype] = {
    1: torch.float32, 2: torch.float16, 3: torch.int8, 4: torch.uint8, 5: torch.int16, 6: torch.uint16,
    7: torch.int32, 8: torch.int64, 9: torch.uint32, 10: torch.uint64, 11: torch.bool, 12: torch.float64,
    16: torch.complex64, 17: torch.complex128, 27: torch.bfloat16,
}  # fmt: skip
"""The GraphDef's ``DataType`` enum (tensor descriptors) -> torch dtype."""

_SHORT = {
    torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.bool: "bool",
}  # fmt: skip

# Written for GE's own index of descriptors; no op's meaning depends on them.
_NAME_TABLES = frozenset({"_input_name_key", "_input_name_value", "_output_name_key", "_output_name_value"})


def torch_dtype(ge_c: int) -> torch.dtype:
    """The torch dtype with this number in GE's C enum. Raises ValueError for one the host has no type for."""
    try:
        return TORCH_OF_C[ge_c]
    except KeyError:
        raise ValueError(f"dtype {ge_c} of GE's C enum has no counterpart on the host") from None


def dtype_name(dtype: torch.dtype) -> str:
    """The short name used in messages: f32, bf16, i64, ..."""
    return _SHORT.get(dtype) or str(dtype).removeprefix("torch.")


def tensor_name(tensor: torch.Tensor | None) -> str:
    """A tensor in a message, e.g. ``f32[2, 3]``; ``absent`` for None."""
    return "absent" if tensor is None else f"{dtype_name(tensor.dtype)}{list(tensor.shape)}"


def decode_tensor(tensor_def: Any) -> torch.Tensor:
    """The value of a TensorDef: row-major little-endian bytes of its descriptor's dtype and shape ([] is 0-d).

    Raises ValueError when the dtype is unknown or the number of bytes does not fit the shape.
    """
    dtype = TORCH_OF_PROTO.get(tensor_def.desc.dtype)
    if dtype is None:
        raise ValueError(f"dtype {tensor_def.desc.dtype} of the GraphDef's enum has no counterpart on the host")
    shape = [int(d) for d in tensor_def.desc.shape.dim]
    data = bytearray(tensor_def.data)
    value = torch.empty(shape, dtype=dtype)
    if len(data) != value.numel() * value.element_size():
        raise ValueError(f"{len(data)} bytes of data do not fill {tensor_name(value)}")
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else value


def decode_attr(attr: Any) -> Any:
    """An AttrDef as str (bytes decoded), int, float (the f32 it holds), bool, list of these, or tensor; None if unset.

    A dtype (``dt``) stays the number of GE's C enum.
    """
    kind = attr.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(attr, kind)
    if kind in ("s", "expression"):
        return value.decode("utf-8", "replace")
    if kind == "t":
        return decode_tensor(value)
    if kind == "list":
        return _decode_list(value)
    if kind == "list_list_int":
        return [list(row.list_i) for row in value.list_list_i]
    if kind == "list_list_float":
        return [list(row.list_f) for row in value.list_list_f]
    return value


def _decode_list(value: Any) -> list[Any]:
    for kind in ("i", "f", "b", "dt"):
        items = getattr(value, kind)
        if items:
            return list(items)
    return [s.decode("utf-8", "replace") for s in value.s] or [decode_tensor(t) for t in value.t]


def decode_attrs(op_def: Any) -> dict[str, Any]:
    """The attributes of an OpDef that are set. Raises ValueError naming the attribute that cannot be decoded."""
    found = {}
    for key in sorted(op_def.attr):
        if key in _NAME_TABLES:
            continue
        try:
            value = decode_attr(op_def.attr[key])
        except ValueError as error:
            raise ValueError(f"attribute {key}: {error}") from error
        if value is not None:
            found[key] = value
    return found
