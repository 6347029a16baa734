"""Fused ops on the host: their generated kernels, built for the CPU twin and launched on torch tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from torchair_autofuse.cache import sweep
from torchair_autofuse.host.decode import TORCH_OF_PROTO
from torchair_autofuse.loop.ir import Param
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef import artefact
from torchair_autofuse.opdef.artefact import Stored
from torchair_autofuse.opdef.definition import Definition, Launch
from torchair_autofuse.opdef.files import SOURCES
from torchair_autofuse.options import Options, read_options
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.build import BuildJob, build_many
from torchair_autofuse.twin.errors import KernelBuildError, TwinViolation
from torchair_autofuse.twin.launcher import TwinKernel, TwinProfile, open_built

_Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Prepared:
    """A launch and the output shapes for some input shapes."""

    outputs: _Shapes
    launch: Launch


@dataclass(eq=False)
class HostKernel:
    """A fused op that is ready to run. ``last_profile``: what its last launch did on the twin, None before it."""

    definition: Definition
    folder: Path
    kernel: TwinKernel
    last_profile: TwinProfile | None = None
    _prepared: dict[_Shapes, _Prepared] = field(default_factory=dict)

    @property
    def op_type(self) -> str:
        return str(self.definition.op.op_type)

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs for CPU tensors in argument order. Nothing is launched when all outputs are empty.

        Raises ValueError when the inputs are not those the op was generated for, TwinViolation (AF406) when the
        kernel breaks a rule of the chip; both name the op, its folder and the shapes.
        """
        self._check(inputs)
        tensors = [t.contiguous() for t in inputs]
        prepared = self._prepare(tuple(tuple(t.shape) for t in tensors))
        kernel = self.definition.kernel
        outputs = [torch.empty(s, dtype=_torch(p)) for p, s in zip(kernel.outputs, prepared.outputs)]
        if not any(t.numel() for t in outputs):
            return outputs
        launch = prepared.launch
        args = [(t.data_ptr(), t.nbytes, "in") for t in tensors] + [(t.data_ptr(), t.nbytes, "out") for t in outputs]
        workspace = torch.zeros(launch.workspace_bytes, dtype=torch.uint8)
        if launch.workspace_bytes:
            args.append((workspace.data_ptr(), launch.workspace_bytes, "workspace"))
        cores = self.definition.schedule.vector_cores
        try:
            self.last_profile = self.kernel.launch(
                args, launch.tiling, launch.tiling_key, launch.block_dim, max_blocks=cores
            )
        except TwinViolation as error:
            message = f"{error.message} ({self._at(tensors)})"
            raise TwinViolation(error.rule, message, block=error.block, where=error.where) from error
        return outputs

    def _check(self, inputs: Sequence[torch.Tensor]) -> None:
        params = self.definition.kernel.inputs
        if len(inputs) != len(params):
            raise ValueError(f"{len(inputs)} inputs given, {len(params)} expected ({self._at(inputs)})")
        for p, t in zip(params, inputs):
            if t.dtype != _torch(p) or t.device.type != "cpu":
                found = f"{t.dtype} on {t.device.type}"
                raise ValueError(f"input {p.name} is {found}, expected {_torch(p)} on cpu ({self._at(inputs)})")

    def _prepare(self, shapes: _Shapes) -> _Prepared:
        found = self._prepared.get(shapes)
        if found is None:
            try:
                symbols = self.definition.symbols(shapes)
            except ValueError as error:
                raise ValueError(f"{error} ({self.op_type} in {self.folder}, {_list(shapes)})") from error
            all_shapes = self.definition.shapes(symbols)
            outputs = tuple(all_shapes[p.name] for p in self.definition.kernel.outputs)
            found = _Prepared(outputs, self.definition.launch(symbols))
            self._prepared[shapes] = found
        return found

    def _at(self, tensors: Sequence[torch.Tensor]) -> str:
        return f"{self.op_type} in {self.folder}, {_list([tuple(t.shape) for t in tensors])}"


_root: Path | None = None
_prepared: dict[str, HostKernel] = {}  # op type -> its kernel, whatever becomes of its folder
_loaded: dict[tuple[Path, str], HostKernel] = {}  # (folder, digest of what is in it) -> kernel


def set_root(path: str | Path | None) -> None:
    """Sets the cache folder that ops are looked up in; None goes back to what the environment says."""
    global _root
    _root = None if path is None else Path(path)


def root() -> Path:
    """The cache folder in use."""
    return _root_in_use()


def load(op_type: str) -> HostKernel:
    """The kernel of a fused op, built if need be; loaded once per process as long as its folder stays the same.

    An op that was prepared with a root is that kernel, though its folder may have been replaced since; another is
    looked up in ``root()``, for the chip in use if it is there. A folder whose files are damaged is made again from its
    definition, with a warning AF506.

    Raises opdef.ArtefactError for a folder that is missing or damaged beyond that, opdef.OpDefError for a bad
    definition, KernelBuildError (AF405) for a kernel that does not build, NoCompiler (AF404).
    """
    found = _prepared.get(op_type)
    return found if found is not None else _load([op_type], root(), None)[0]


def prepare(op_types: Iterable[str], *, root: str | Path | None = None, options: Options | None = None) -> None:
    """Builds the kernels of several ops in parallel, ahead of their first run. Raises as :func:`load` does.

    ``root``: the cache folder that holds them; the kernels are remembered for :func:`load`. None: the one in use.
    ``options``: the chip to prepare for and the limit of the cache; None: the environment's.
    """
    names = list(dict.fromkeys(op_types))
    made = _load(names, Path(root) if root is not None else _root_in_use(), options)
    if root is not None:
        _prepared.update(zip(names, made))


def profiles() -> Mapping[str, TwinProfile]:
    """Op type -> profile of its last launch in this process, for the ops that were launched."""
    return {k.op_type: k.last_profile for k in _loaded.values() if k.last_profile is not None}


def clear() -> None:
    """Forgets all loaded and prepared kernels and their profiles."""
    _loaded.clear()
    _prepared.clear()


def _root_in_use() -> Path:
    return _root if _root is not None else Path(read_options().cache_root())


def _load(op_types: Sequence[str], folder: Path, options: Options | None) -> list[HostKernel]:
    options = read_options() if options is None else options
    target = chip(options.soc)
    soc = None if isinstance(target, Reason) else target.soc
    stored = [artefact.repaired(folder, t, soc) for t in op_types]
    keys = [_key(s) for s in stored]
    missing = [(k, s) for k, s in zip(keys, stored) if k not in _loaded]
    made = [Definition.of(s.op) for _, s in missing]
    jobs = [BuildJob(s.sources, d.entry, d.schedule.npu_arch) for d, (_, s) in zip(made, missing)]
    for definition, (key, s), job, built in zip(made, missing, jobs, build_many(jobs, cache_root=folder)):
        if isinstance(built, KernelBuildError):
            raise KernelBuildError(f"{s.op.op_type} in {s.folder}: its kernel did not build", built.errors) from built
        _loaded[key] = HostKernel(definition, s.folder, open_built(job, built, folder))
    sweep.keep_within(folder, options.cache_limit)
    return [_loaded[k] for k in keys]


def _key(stored: Stored) -> tuple[Path, str]:
    digest = hashlib.sha256(stored.op.SerializeToString(deterministic=True))
    for name in SOURCES:
        digest.update(stored.sources[name].encode())
    return stored.folder, digest.hexdigest()


def _torch(param: Param) -> torch.dtype:
    return TORCH_OF_PROTO[param.dtype.ge_proto]


def _list(shapes: Sequence[tuple[int, ...]]) -> str:
    return f"input shapes {', '.join(str(list(s)) for s in shapes) or 'none'}"
