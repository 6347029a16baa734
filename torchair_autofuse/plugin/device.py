"""What differs where GE compiles the graphs: the chip is the device's, and saved graphs need their ops first."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from torchair_autofuse.deliver.delivery import Delivery, delivery
from torchair_autofuse.host import loader
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options, read_options
from torchair_autofuse.plugin.state import active_options, warn

_available: set[str] = set()  # op types whose kernels this process has made available
_packages: list[Any] = []  # what ``activate`` said: an ActivePackage, a Reason or None; empty before it was asked


def start() -> None:
    """Shows the op package to GE, once per process and before GE starts; on the host it does nothing."""
    if _packages or not loader.cann_present():
        return
    from torchair_autofuse.deliver.package.activate import activate

    options = active_options()
    try:
        found = activate(os.environ, settle(options)) if options.route in ("auto", "package") else None
    except Exception as error:  # TorchAir is on its way to start GE
        if options.strict:
            raise
        found = Reason("AF502", f"the op package could not be looked for: {type(error).__name__}: {error}")
    _packages.append(found)


def deliver(options: Options, *, dynamic: bool = True) -> Delivery | Reason:
    """How fused ops of a graph get their kernels here, or why they do not. ``dynamic``: it has symbolic sizes."""
    on_device = loader.cann_present()
    if on_device:
        start()
    package = _packages[0] if _packages else None
    return delivery(options, on_device=on_device, dynamic=dynamic, package=package)


def settle(options: Options) -> Options:
    """The options with the chip of the device; on the host they stay as they are."""
    if not loader.cann_present():
        return options
    from torchair.core import _torchair

    soc = str(_torchair.GetSocName())
    if options.soc not in (soc, Options().soc):
        text = f"SoC {options.soc} has no effect where graphs are compiled for a device: it is an {soc}"
        warn(Reason("AF106", text))
    return options.replace(soc=soc)


def notes() -> tuple[Reason, ...]:
    """What a report says beside its graph: that GE's own AutoFuse works on the rest of it."""
    if not loader.cann_present() or not read_options().enabled:
        return ()
    return (Reason("AF305", "AUTOFUSE_FLAGS switches on GE's own AutoFuse too; it may fuse what is left here"),)


def made_available(op_types: Iterable[str]) -> None:
    """Remembers op types that graphs of this process may use."""
    _available.update(op_types)


def before_load(graph: Any) -> None:
    """Makes the fused ops of a graph that another process compiled available, before GE sees it.

    ``graph``: a GeGraph. Raises ArtefactError when one is not to be had.
    """
    op_types = {op.type for op in graph._proto.op if op.type.startswith("Autofuse")} - _available
    if not op_types or not loader.cann_present():
        return
    from torchair_autofuse.opdef.errors import ArtefactError

    sizes = [d for op in graph._proto.op if op.type == "Data" for t in op.output_desc for d in t.shape.dim]
    found = deliver(settle(active_options()), dynamic=any(d < 0 for d in sizes))
    if isinstance(found, Reason):
        raise ArtefactError(f"a saved graph needs fused ops: {found}")
    found.saved(sorted(op_types))
    made_available(op_types)


def saved_key(options: Options) -> str:
    """What a graph that TorchAir saves depends on: options, generator and, where it is fused, what delivers its ops."""
    from torchair_autofuse.opdef import generator_digest

    settled = settle(options)
    found = None if options.run_unfused else deliver(settled)
    way = found.digest() if isinstance(found, Delivery) else "none"
    return f"{settled.digest()}:{generator_digest()}:{way}"
