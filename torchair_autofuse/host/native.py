"""Python stand-ins for TorchAir's native modules, with what its Python code expects of them and nothing more.

Names, argument order and enum members are those that TorchAir's own callers in the torch_npu wheel use. A
native call that is not modelled is an AttributeError with code AF402 that names it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from torchair_autofuse import dtypes
from torchair_autofuse.host import loader
from torchair_autofuse.host.untraced import untraced
from torchair_autofuse.messages import Reason

UNKNOWN_RANK = -2  # the only dim of a shape of unknown rank; -1 is a dim of unknown size

TorchDataType = enum.IntEnum(  # numbered as c10::ScalarType
    "TorchDataType",
    {
        "UINT8": 0, "INT8": 1, "INT16": 2, "INT32": 3, "INT64": 4, "FLOAT16": 5, "FLOAT32": 6, "FLOAT64": 7,
        "COMPLEX32": 8, "COMPLEX64": 9, "COMPLEX128": 10, "BOOL": 11, "BF16": 15,
        "UINT16": 27, "UINT32": 28, "UINT64": 29,
    },
)  # fmt: skip


class TorchNpuGraphBase:
    """A GE graph that runs on the host: what TorchAir's ``TorchNpuGraph`` derives from.

    Used as load, set_hint_shape, compile once, then run many times. Every method raises RuntimeError and nothing else:
    TorchAir rebuilds exceptions from their type and one message, which works for few types.
    """

    def __init__(self, name: str = "") -> None:
        self._name = str(name)
        self._executor: Any = None
        self._output_dtypes: list[int] = []
        self._n_inputs = 0
        self._input_shapes: list[list[int]] = []
        self._output_shapes: list[list[int]] = []

    @untraced
    def load(
        self,
        model_def: bytes,
        options: Mapping[str, str],
        input_placements: Sequence[int],
        output_dtypes: Sequence[int],
        executor_type: int,
    ) -> None:
        """Takes a serialized ModelDef. ``output_dtypes`` are numbers of GE's C enum; options concern GE alone."""
        from torchair_autofuse.host.executor import GraphExecutor

        self._output_dtypes = list(output_dtypes)
        self._n_inputs = len(input_placements)
        with _RuntimeErrors(f"load of graph {self._name}"):
            self._executor = GraphExecutor(
                bytes(model_def), output_dtypes=list(output_dtypes), input_placements=list(input_placements)
            )

    @untraced
    def set_hint_shape(self, input_shapes: Sequence[Sequence[int]], output_shapes: Sequence[Sequence[int]]) -> None:
        """The shapes that run must find, -1 for a dim of any size; outputs in NetOutput order."""
        self._input_shapes = [list(s) for s in input_shapes]
        self._output_shapes = [list(s) for s in output_shapes]

    @untraced
    def compile(self) -> None:
        """The graph is interpreted: nothing is left to do after load."""
        self._loaded()

    def auto_tune(self, pack: tuple[Any, ...]) -> None:
        """There is nothing to tune on the host."""
        self._loaded()

    def summary(self) -> str:
        return ""

    @untraced
    def run(self, pack: tuple[Any, ...]) -> list[torch.Tensor]:
        """Runs the graph on ``pack`` = (inputs, assigned outputs, stream).

        ``inputs``: one plain dense CPU tensor per Data index. ``assigned``: empty, or per output None or the tensor to
        write it into, which is then the returned object. Other outputs are fresh dense tensors.
        """
        if not isinstance(pack, tuple) or len(pack) != 3:
            raise RuntimeError("TorchNpuGraphBase.run takes one tuple (inputs, assigned outputs, stream)")
        executor = self._loaded()
        inputs, assigned = list(pack[0]), list(pack[1] or ())
        self._check_inputs(inputs)
        if assigned and len(assigned) != len(self._output_dtypes):
            raise RuntimeError(
                f"graph {self._name} has {len(self._output_dtypes)} outputs, but {len(assigned)} are assigned"
            )
        with _RuntimeErrors(f"run of graph {self._name}"):
            outputs: list[torch.Tensor] = list(executor.run(inputs, assigned or [None] * len(self._output_dtypes)))
        self._check_outputs(outputs)
        return outputs

    def __getattr__(self, name: str) -> Any:
        raise _not_modelled(f"TorchNpuGraphBase.{name}", name)

    def _loaded(self) -> Any:
        if self._executor is None:
            raise RuntimeError(f"graph {self._name} is used before it was loaded")
        return self._executor

    def _check_inputs(self, inputs: Sequence[object]) -> None:
        if len(inputs) != self._n_inputs:
            raise RuntimeError(f"graph {self._name} takes {self._n_inputs} inputs, {len(inputs)} given")
        for i, x in enumerate(inputs):
            what = f"input {i} of graph {self._name}"
            if type(x) not in (torch.Tensor, torch.nn.Parameter):
                raise RuntimeError(f"{what} is a {type(x).__name__}: expected a torch.Tensor and no subclass of it")
            assert isinstance(x, torch.Tensor)
            if x.device.type != "cpu":
                raise RuntimeError(f"{what} is on {x.device}: without an NPU graphs run on CPU tensors, use .cpu()")
            if not x.is_contiguous():
                raise RuntimeError(f"{what} is not contiguous, strides {x.stride()} for shape {list(x.shape)}")
            if i < len(self._input_shapes) and not _fits(x.shape, self._input_shapes[i]):
                raise RuntimeError(
                    f"{what} has shape {list(x.shape)}, but the graph was compiled for {self._input_shapes[i]}"
                )

    def _check_outputs(self, outputs: Sequence[torch.Tensor]) -> None:
        if len(outputs) != len(self._output_dtypes):
            raise RuntimeError(
                f"graph {self._name} gave {len(outputs)} outputs, but {len(self._output_dtypes)} are declared"
            )
        for i, (y, number) in enumerate(zip(outputs, self._output_dtypes)):
            what, declared = f"output {i} of graph {self._name}", dtypes.from_ge_c(number)
            if declared is not None and y.dtype is not _TORCH_OF[declared.name]:
                raise RuntimeError(f"{what} is {y.dtype}, but {_TORCH_OF[declared.name]} is declared")
            if i < len(self._output_shapes) and not _fits(y.shape, self._output_shapes[i]):
                raise RuntimeError(f"{what} has shape {list(y.shape)}, but {self._output_shapes[i]} is declared")


_TORCH_OF = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "bool": torch.bool,
    "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "u16": torch.uint16,
    "i32": torch.int32, "u32": torch.uint32, "i64": torch.int64, "u64": torch.uint64,
}  # fmt: skip


def _fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    if UNKNOWN_RANK in declared:
        return True
    return len(shape) == len(declared) and all(d in (-1, s) for s, d in zip(shape, declared))


class _RuntimeErrors:
    """Turns every Exception of a block into a plain RuntimeError that keeps the message."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and type(error) is not RuntimeError:
            raise RuntimeError(f"{self._what}: {type(error).__name__}: {error}") from error


def _initialize(options: Mapping[str, str]) -> None:
    """GE's start-up. Its options (device, precision of matmuls, ...) have no meaning on the host."""


def _finalize() -> None:
    """GE's shutdown, called at exit."""


def _stdout_channel(device: int) -> int:
    """Output that kernels print on a device; on the host they print directly."""
    return 0


def _debug_log_path(path: str) -> None:
    """Where native logging goes; there is none."""


def _check_cann_compat(op_type: str, optional_inputs: Sequence[str], optional_attrs: Sequence[str]) -> str:
    """Whether the installed CANN knows an op with these optional inputs and attributes: "" is yes."""
    return ""


def _registered_ir_def(op_type: str) -> tuple[str, list[Any], list[Any], list[Any]]:
    """(status, inputs, outputs, attrs) of an op registered in GE. There is no GE, so "ERROR": not registered."""
    return "ERROR", [], [], []


def _storage_sizes(tensor: torch.Tensor) -> list[int]:
    """The storage shape of a tensor: on the host there are no private formats."""
    return list(tensor.shape)


_MODELLED: dict[str, dict[str, Any]] = {
    "_torchair": {
        "TorchNpuGraphBase": TorchNpuGraphBase,
        "TorchDataType": TorchDataType,
        "InitializeGraphEngine": _initialize,
        "FinalizeGraphEngine": _finalize,
        "InitDeviceStdoutChannel": _stdout_channel,
        "SetDebugLogPath": _debug_log_path,
        "StupidRepeat": lambda word, times: word * times,
        "GetSocName": loader.soc_name,
        "check_cann_compat": _check_cann_compat,
        "get_registered_ir_def": _registered_ir_def,
    },
    "_npu_graph_executor": {"GetNpuStorageSizes": _storage_sizes},
    "_npu_utils": {},
    "_abi_compat_ge_apis": {},
}


def populate(module: ModuleType) -> None:
    """Puts the stand-ins into ``torchair.core.<name>``. Raises KeyError for a module that is not one of the natives."""
    name = module.__name__.rpartition(".")[2]
    vars(module).update(_MODELLED[name])
    vars(module)["__getattr__"] = _missing(name)


def _missing(module: str) -> Callable[[str], Any]:
    def missing(name: str) -> Any:
        raise _not_modelled(f"{module}.{name}", name)

    return missing


def _not_modelled(what: str, name: str) -> AttributeError:
    if name.startswith("__"):  # probed by Python itself
        return AttributeError(f"no attribute {what}")
    return AttributeError(
        str(Reason("AF402", f"TorchAir's native {what} needs CANN and an NPU; this feature does not run on the host"))
    )
