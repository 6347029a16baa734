"""The JIT route: fused ops compiled for the device and registered with GE in this process (CANN 9.1 and later)."""

from torchair_autofuse.deliver.jit.route import unavailable

__all__ = ["unavailable"]
