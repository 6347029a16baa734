"""What the host changes in TorchAir after its import, so that graphs come out as they would for an NPU.

Never applied where CANN is present. Nothing outside TorchAir is changed: eager PyTorch and other backends stay as is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from torchair_autofuse.host import sdpa
from torchair_autofuse.messages import Reason


def apply() -> None:
    """Applies all patches. Raises RuntimeError (AF302) when TorchAir is not what they were written for."""
    _place_inputs_on_npu()
    _decompose_attention()


def _place_inputs_on_npu() -> None:
    """Makes tensor inputs of graphs say that they are in device memory, as they would be on an NPU.

    They are CPU tensors all the same. A 0-d input (a step count, a loss scale) is taken to be a host scalar, which is
    what it mostly is on an NPU too, unless it is a parameter; symbolic sizes always are.
    """
    owner = import_module("torchair._ge_concrete_graph.fx2ge_converter").GeConcreteGraph
    original = _checked(owner, "parse_input", ["self", "target", "args", "kwargs", "meta_outputs"])

    @functools.wraps(original)
    def parse_input(self: Any, target: Any, args: Any, kwargs: Any, meta_outputs: Any) -> Any:
        data = original(self, target, args, kwargs, meta_outputs)
        if isinstance(meta_outputs, torch.Tensor) and (meta_outputs.dim() > 0 or _is_parameter(meta_outputs)):
            node = data.node
            for desc in (node.input_desc[0], node.output_desc[0]):
                desc.device_type = "NPU"
            node.attr.pop("_host_tensor", None)
            self.graph.named_inputs_info[node.name].device_type = "NPU"
        return data

    owner.parse_input = parse_input


def _is_parameter(meta: torch.Tensor) -> bool:
    return isinstance(meta, torch.nn.Parameter) or hasattr(meta, "_torchair_is_parameter")


def _decompose_attention() -> None:
    """Makes scaled_dot_product_attention compile: on CPU tensors it is a fused op TorchAir has no converter for."""
    module: Any = import_module("torchair.npu_fx_compiler")
    original = _checked(module, "_compile_graph_with_aot", ["gm", "compiler", "example_inputs"])

    @functools.wraps(original)
    def compile_graph(*args: Any, **kwargs: Any) -> Any:
        with sdpa.PlainAttention():
            return original(*args, **kwargs)

    module._compile_graph_with_aot = compile_graph


def _checked(owner: Any, name: str, parameters: list[str]) -> Callable[..., Any]:
    """The function ``name`` of ``owner``, if its first parameters are the expected ones."""
    function = getattr(owner, name, None)
    found = list(inspect.signature(function).parameters) if callable(function) else None
    if function is None or found is None or found[: len(parameters)] != parameters:
        raise RuntimeError(
            str(
                Reason(
                    "AF302",
                    f"TorchAir's {name} has parameters {found}, expected {parameters} first; host patch left out",
                )
            )
        )
    patched: Callable[..., Any] = function
    return patched
