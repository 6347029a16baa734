"""Which way fused ops reach the kernels that run: decided by the CANN that is installed and by the user."""

from __future__ import annotations

from dataclasses import dataclass

from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.messages import Reason

PACKAGE_SINCE = (8, 5, 0)  # npu_op_* functions of CMake
JIT_SINCE = (9, 1, 0)  # GE looks for custom ops again before each compile


@dataclass(frozen=True)
class Route:
    """``name``: "host" (the CPU twin), "package" or "jit". ``cann``: what it goes to, None on the host. ``why``: one
    phrase for people."""

    name: str
    why: str
    cann: Cann | None = None


def choose(asked: str, cann: Cann | Reason, *, on_device: bool, has_package: bool = False) -> Route | Reason:
    """The route for TORCHAIR_AUTOFUSE_ROUTE = ``asked`` ("auto", "host", "package", "jit"), or AF505.

    ``on_device``: graphs are compiled by GE; else they run on the host. ``has_package``: the user named a package,
    which "auto" then takes. "off" is no route: nothing asks for one.
    """
    if not on_device:
        if asked in ("auto", "host"):
            return Route("host", "there is no NPU: graphs run on the host, fused ops on the CPU twin")
        return Reason("AF505", f"route {asked!r} needs an NPU and CANN; leave TORCHAIR_AUTOFUSE_ROUTE unset here")
    if isinstance(cann, Reason):
        return cann
    if asked == "host":
        return Reason(
            "AF505", "route 'host' is for graphs that run on the host; TORCHAIR_AUTOFUSE_HOST=1 makes them do so"
        )
    if cann.version < PACKAGE_SINCE:
        return Reason("AF505", f"fused ops need CANN {_text(PACKAGE_SINCE)} or later, {cann.home} has {cann.text}")
    if asked == "package" or (asked == "auto" and has_package):
        return Route("package", "asked for" if asked == "package" else "a package is installed", cann)
    if cann.version >= JIT_SINCE:
        return Route("jit", "asked for" if asked == "jit" else f"CANN {cann.text} finds new ops at any time", cann)
    if asked == "jit":
        return Reason(
            "AF505",
            f"route 'jit' needs CANN {_text(JIT_SINCE)} or later, {cann.home} has {cann.text}; the package route works",
        )
    return Route("package", f"CANN {cann.text} reads ops when it starts only", cann)


def _text(version: tuple[int, int, int]) -> str:
    return f"{version[0]}.{version[1]}"
