"""Kernels of fused ops for where a graph runs: one delivery per compile, of the route that this machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchair_autofuse.cache import sweep
from torchair_autofuse.deliver.cann import find_cann
from torchair_autofuse.deliver.route import Route, choose
from torchair_autofuse.messages import Reason
from torchair_autofuse.options import Options
from torchair_autofuse.soc.chip import chip

if TYPE_CHECKING:
    from torchair_autofuse.deliver.package.activate import ActivePackage
    from torchair_autofuse.opdef.build import GeneratedOp


@dataclass(frozen=True)
class Delivery:
    """Makes kernels available by ``route`` for ``options.soc``. It is what ``pipeline.fuse`` asks.

    ``dynamic``: the graph has symbolic sizes. ``package``: the op package that GE has read, why it is of no use, or
    None when there is none.
    """

    route: Route
    options: Options
    dynamic: bool
    package: ActivePackage | Reason | None = None

    def __call__(self, generated: Sequence[GeneratedOp], ops: Sequence[Any]) -> Mapping[str, Reason]:
        """Records every op in the cache, then says which op types have no kernel to be had, and why.

        Raises ArtefactError when the cache cannot be written; on the host KernelBuildError (AF405) and NoCompiler
        (AF404) too.
        """
        from torchair_autofuse.opdef import artefact

        target = chip(self.options.soc)
        assert not isinstance(target, Reason), "fuse has looked it up"
        root = self.options.cache_root()
        for made, op in zip(generated, ops):
            artefact.write(root, made, target, op)
        return self.missing(ops)

    def missing(self, ops: Sequence[Any]) -> Mapping[str, Reason]:
        """Of definitions whose folders are in the cache: those that there is no kernel of, and why.

        Keeps the cache within its limit afterwards.
        """
        root = Path(self.options.cache_root())
        if self.route.name == "host":
            from torchair_autofuse.host import kernels

            kernels.prepare([op.op_type for op in ops], root=root, options=self.options)
            return {}
        if self.route.name == "package":
            missing = self._not_in_package(ops)
        else:
            from torchair_autofuse.deliver import jit

            assert self.route.cann is not None
            missing = jit.unavailable(ops, self.options, self.route.cann, dynamic=self.dynamic)
        sweep.keep_within(root, self.options.cache_limit)
        return missing

    def _not_in_package(self, ops: Sequence[Any]) -> Mapping[str, Reason]:
        from torchair_autofuse.deliver.package.activate import ActivePackage, record

        if isinstance(self.package, ActivePackage):
            return self.package.unavailable(ops)
        reason = record(ops, self.options) if self.package is None else self.package
        return dict.fromkeys((op.op_type for op in ops), reason)

    def saved(self, op_types: Sequence[str]) -> None:
        """Makes the ops of a graph that was compiled in another process available.

        Raises ArtefactError naming those that are not to be had.
        """
        from torchair_autofuse.opdef import artefact
        from torchair_autofuse.opdef.errors import ArtefactError

        root = self.options.cache_root()
        missing = self.missing([artefact.read(root, name, self.options.soc).op for name in dict.fromkeys(op_types)])
        if missing:
            raise ArtefactError(
                f"a saved graph needs fused ops that are not to be had: {'; '.join(map(str, missing.values()))}. "
                "Delete TorchAir's cache folder of the model, it is compiled again"
            )

    def digest(self) -> str:
        """What a saved graph depends on besides the options: part of the key that it is saved under."""
        if self.route.name == "package":
            return f"package:{getattr(self.package, 'digest', '')}"
        return f"{self.route.name}:{self.route.cann.text if self.route.cann else ''}"


def delivery(
    options: Options, *, on_device: bool, dynamic: bool, package: ActivePackage | Reason | None = None
) -> Delivery | Reason:
    """The delivery for a graph that GE compiles (``on_device``) or that runs on the host; AF505 when there is none."""
    route = choose(options.route, find_cann(), on_device=on_device, has_package=package is not None)
    return route if isinstance(route, Reason) else Delivery(route, options, dynamic, package)
