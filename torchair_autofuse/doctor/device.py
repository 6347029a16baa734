"""What an NPU needs, and the route that fused ops take to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from torchair_autofuse.deliver.cann import find_cann
from torchair_autofuse.deliver.package.activate import ActivePackage, activate, build_with
from torchair_autofuse.deliver.route import choose
from torchair_autofuse.doctor.finding import Finding
from torchair_autofuse.host import loader
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options

_DRIVER = Path("/dev/davinci_manager")


def delivery(options: Options) -> Iterator[Finding]:
    """CANN and its programs, the driver, the op package, the route."""
    cann = find_cann()
    on_device = loader.cann_present()
    if isinstance(cann, Reason):
        state, advice = ("missing", "install CANN 8.5 or later, source its set_env.sh") if on_device else ("note", "")
        yield Finding("CANN", state, cann.text, advice)
    else:
        yield Finding("CANN", "ok", f"{cann.text} for {cann.machine} in {cann.home}")
        yield _tool("bisheng", cann.tool("bisheng"), f"source {cann.set_env}")
        yield _tool("cmake", shutil.which("cmake"), "pip install cmake")
    package: ActivePackage | Reason | None = None
    if on_device:
        there = _DRIVER.exists()
        advice = "" if there else "install the driver of the NPU; npu-smi info lists the devices"
        yield Finding("NPU driver", "ok" if there else "missing", f"{'' if there else 'no '}{_DRIVER}", advice)
        package = activate(dict(os.environ), options)
        if package is not None:
            yield _package(package)
    if options.route == "off":
        yield Finding("route", "note", "off: graphs are planned and run as they were")
        return
    route = choose(options.route, cann, on_device=on_device, has_package=package is not None)
    if isinstance(route, Reason):
        yield Finding("route", "missing", str(route), "unset TORCHAIR_AUTOFUSE_ROUTE, or install a later CANN")
    else:
        record = route.name == "package" and package is None
        advice = f"run the model once, then: {build_with(options)}" if record else ""
        yield Finding("route", "ok", f"{route.name}: {route.why}", advice)


def _package(package: ActivePackage | Reason) -> Finding:
    if isinstance(package, Reason):
        return Finding("op package", "missing", str(package), "see docs/deploy-package.md")
    return Finding("op package", "ok", f"{len(package.ops)} fused ops in {package.folder}")


def _tool(name: str, found: object, advice: str) -> Finding:
    return Finding(name, "ok", str(found)) if found else Finding(name, "missing", "not found", advice)
