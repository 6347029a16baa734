"""Element types: one frozen record per type, with the names and numbers each layer of the stack uses for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """An element type.

    ``ge_proto`` is its value in the GraphDef's ``DataType`` enum (tensor descriptors), ``ge_c`` its value in GE's
    C enum (``Cast.dst_type``, ``Shape.dtype``, ``_output_dtypes``); ``cpp`` its Ascend C type name.
    """

    name: str
    itemsize: int  # bytes
    kind: str  # "float", "int", "uint" or "bool"
    ge_proto: int
    ge_c: int
    cpp: str

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer (bool is not)."""
        return self.kind in ("int", "uint")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype (bfloat16 comes from ml_dtypes)."""
        dtype: np.dtype[Any] = np.dtype(_NUMPY[self.name])
        return dtype

    def __str__(self) -> str:
        return self.name


F32 = DType("f32", 4, "float", 1, 0, "float")
F16 = DType("f16", 2, "float", 2, 1, "half")
BF16 = DType("bf16", 2, "float", 27, 27, "bfloat16_t")
F64 = DType("f64", 8, "float", 12, 11, "double")
I8 = DType("i8", 1, "int", 3, 2, "int8_t")
U8 = DType("u8", 1, "uint", 4, 4, "uint8_t")
I16 = DType("i16", 2, "int", 5, 6, "int16_t")
U16 = DType("u16", 2, "uint", 6, 7, "uint16_t")
I32 = DType("i32", 4, "int", 7, 3, "int32_t")
U32 = DType("u32", 4, "uint", 9, 8, "uint32_t")
I64 = DType("i64", 8, "int", 8, 9, "int64_t")
U64 = DType("u64", 8, "uint", 10, 10, "uint64_t")
BOOL = DType("bool", 1, "bool", 11, 12, "uint8_t")  # in GM a bool is a byte holding 0 or 1

ALL: tuple[DType, ...] = (F32, F16, BF16, F64, I8, U8, I16, U16, I32, U32, I64, U64, BOOL)
HALF_FLOATS: tuple[DType, ...] = (F16, BF16)

_NUMPY: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32,
    "i64": np.int64, "u64": np.uint64, "bool": np.bool_,
}  # fmt: skip
_BY_NAME = {d.name: d for d in ALL}
_BY_PROTO = {d.ge_proto: d for d in ALL}
_BY_C = {d.ge_c: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL}


def by_name(name: str) -> DType:
    """The type called ``name`` ("f32", "bf16", ...). Raises KeyError."""
    return _BY_NAME[name]


def from_ge_proto(value: int) -> DType | None:
    """The type with this number in the GraphDef's enum, or None (undefined, string, complex, ...)."""
    return _BY_PROTO.get(value)


def from_ge_c(value: int) -> DType | None:
    """The type with this number in GE's C enum, or None."""
    return _BY_C.get(value)


def from_numpy(dtype: Any) -> DType:
    """The type of a numpy dtype. Raises KeyError."""
    return _BY_NUMPY[np.dtype(dtype)]
