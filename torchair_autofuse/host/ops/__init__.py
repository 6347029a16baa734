"""The meaning of GE ops on CPU tensors: importing this package fills OPS from the family modules beside it."""

from importlib import import_module
from pkgutil import iter_modules

from torchair_autofuse.host.ops.registry import OPS, OpCall, OpFunction, op

for _family in sorted(m.name for m in iter_modules(__path__)):
    import_module(f"{__name__}.{_family}")

__all__ = ["OPS", "OpCall", "OpFunction", "op"]
