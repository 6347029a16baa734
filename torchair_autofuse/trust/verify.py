"""verify: a model fused, unfused and in f64, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchair_autofuse import plugin
from torchair_autofuse.options import Options, Scope, scope
from torchair_autofuse.trust.inputs import Args, clear_gradients, copied, kept, named_state, randomised, tensors
from torchair_autofuse.trust.measure import Errors, OutputCheck, errors, same_bits
from torchair_autofuse.trust.record import Call, Recorder
from torchair_autofuse.trust.report import VerifyReport
from torchair_autofuse.trust.session import Session

_RECOMPILES = 256  # of one function: every verification compiles it anew


def verify(
    model: Callable[..., Any],
    *inputs: Any,
    options: str | Options | None = None,
    examples: Sequence[Sequence[Any]] = (),
    shapes: Sequence[Sequence[Sequence[int]]] = (),
    random: int = 0,
    seed: int = 0,
    dynamic: bool | None = None,
    backward: bool = False,
    repeats: int = 2,
) -> VerifyReport:
    """Compares a model's graphs fused, unfused and evaluated in f64, on the inputs that they get.

    ``model``: a module or function, compiled already or not; ``inputs``: its arguments, tensors or trees of them. More
    runs come from ``examples``, tuples of arguments; from ``shapes``, each one shape per tensor of ``inputs``, filled
    with random values like theirs; and from ``random``, so many with random values in their own shapes. ``options``: a
    flag string, Options, or None for what is active; fusion is on whatever they say. ``dynamic``: as for torch.compile.
    ``backward``: the sum of the float outputs is differentiated too. ``repeats``: runs of each fused graph that must
    agree bit for bit.

    Neither the arguments nor the model's parameters, buffers and gradients are changed. What a fused graph does wrong
    is in the report; an error that the model has without fusion too is raised as it is. Raises ValueError for a bad
    option, and for shapes or examples that do not fit the inputs.
    """
    if repeats < 1:
        raise ValueError(f"verify: repeats: expected a number of at least 1, got {repeats}")
    if not all(isinstance(e, (tuple, list)) for e in examples):
        raise ValueError("verify: examples: expected tuples of the model's arguments, such as [(x,), (y,)]")
    runs: list[Args] = [inputs, *(tuple(e) for e in examples)]
    runs += [randomised(inputs, seed + i, s) for i, s in enumerate(shapes)]
    runs += [randomised(inputs, seed + len(shapes) + i) for i in range(random)]
    return run(Trial(model, options, dynamic, backward, seed), runs, repeats=repeats).report


@dataclass(frozen=True)
class Trial:
    """What is run, and how: arguments of ``verify``."""

    model: Callable[..., Any]
    options: str | Options | None = None
    dynamic: bool | None = None
    backward: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise TypeError(f"model: expected a module or function, got {self.model!r}")

    @property
    def function(self) -> Any:
        """The model as it was before torch.compile, which would bring its own backend."""
        found: Any = self.model
        for name in ("_orig_mod", "_torchdynamo_orig_callable"):
            found = getattr(found, name, found)
        return found

    def scope(self) -> Scope:
        """The options in which it is compiled."""
        return scope(plugin.active_options() if self.options is None else self.options)

    def call(self, compiled: Any, given: Args) -> Any:
        """The outputs; with ``backward`` after their gradients have been taken."""
        torch.manual_seed(self.seed)
        outputs = compiled(*given)
        if self.backward:
            floats = [t for _, t in tensors(outputs) if t.is_floating_point() and t.requires_grad]
            if not floats:
                raise ValueError("backward=True, but no output requires grad: do inputs or parameters?")
            clear_gradients(self.function)
            torch.stack([t.float().sum() for t in floats]).sum().backward()
        return outputs


@dataclass(frozen=True)
class Ran:
    """``outputs``: of every run of the fused model; ``session``: what was compared."""

    report: VerifyReport
    session: Session
    outputs: list[Any]


def run(trial: Trial, runs: Sequence[Args], *, repeats: int = 2, eager: bool = True) -> Ran:
    """Compiles a model fused and compares its graphs in every run; raises what it raises without fusion too.

    ``eager``: eager PyTorch is run too, for comparison.
    """
    function, on = trial.function, trial.scope()
    session = Session(repeats=repeats)
    if not session.inside:
        session = Session(repeats=repeats, unfused=_unfused_runs(trial, runs))
    names, plain, failure = _Names(), _Eager(), ""
    returned: list[Any] = []
    with kept(function), session:
        compiled = _compile(function, trial.dynamic)
        for args in runs:
            given = copied(args)
            session.recorder.forget()
            expected = plain.run(trial, args) if eager else {}
            try:
                with on, _recompiling():
                    outputs = trial.call(compiled, given)
            except Exception as error:
                # On a device the unfused model has run already; here a graph must have failed that does not unfused.
                if session.inside and not any(check.failure for check in session.checks):
                    raise  # it is the model's own
                failure = (str(error) or type(error).__name__).splitlines()[0]
                break
            returned.append(outputs)
            plain.compare(names.learn(session.recorder, outputs, given, function), outputs, expected)
    return Ran(session.report(names.shown(), failure, outputs=plain.of), session, returned)


def _compile(function: Any, dynamic: bool | None) -> Any:
    import torchair

    # a backend of its own: nothing that was compiled before is used again
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    return torch.compile(function, backend=backend, dynamic=dynamic)


def _recompiling() -> Any:
    config = torch._dynamo.config
    names = ("recompile_limit", "accumulated_recompile_limit", "cache_size_limit", "accumulated_cache_size_limit")
    known = [n for n in names if hasattr(config, n)][:2]  # the last two: their names in older releases of torch
    return config.patch(dict.fromkeys(known, _RECOMPILES))


def _unfused_runs(trial: Trial, runs: Sequence[Args]) -> Callable[[Call], Sequence[torch.Tensor] | None]:
    """Compiles and runs the model unfused where graphs are compiled for a device. What is returned gives the outputs
    of a fused call's counterpart: the call of a graph with the same inputs, bit for bit."""
    calls: list[Call] = []
    with kept(trial.function), Recorder(calls.append):
        compiled = _compile(trial.function, trial.dynamic)
        for args in runs:
            with trial.scope(), scope(run_unfused=True), _recompiling():
                trial.call(compiled, copied(args))

    def outputs(call: Call) -> Sequence[torch.Tensor] | None:
        for other in calls:
            if other.outputs is not None and same_bits(call.inputs, other.inputs):
                calls.remove(other)
                return (*other.outputs, *other.inputs_after)
        return None

    return outputs


class _Names:
    """What the outputs of graphs are called in the model: found by the memory that they are in."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def learn(self, recorder: Recorder, outputs: Any, given: Args, function: Any) -> list[tuple[str, str]]:
        """Names of this run's outputs; returns (key of a graph's output, path in the model's outputs) of those."""
        places: dict[int, tuple[str, str]] = {}
        for path, tensor in named_state(function):
            places[_memory(tensor)] = (path, "")
            if tensor.grad is not None:
                places[_memory(tensor.grad)] = (f"gradient of {path}", "")
        for path, tensor in tensors(given):
            places[_memory(tensor)] = (f"input{path}, written", "")
            if tensor.grad is not None:
                places[_memory(tensor.grad)] = (f"gradient of input{path}", "")
        for path, tensor in tensors(outputs):
            places.setdefault(_memory(tensor), (f"output{path}", path))
        found = []
        for record, index, tensor in recorder.live:
            name, path = places.get(_memory(tensor), ("", ""))
            key = f"{record.name}:{index}"
            if name:
                self._names.setdefault(key, f"{key} {name}")
            if name.startswith("output"):
                found.append((key, path))
        return found

    def shown(self) -> dict[str, str]:
        return self._names


class _Eager:
    """The model's outputs in eager PyTorch, against what the compiled model gave."""

    def __init__(self) -> None:
        self._errors: dict[str, Errors] = {}

    def run(self, trial: Trial, args: Args) -> dict[str, torch.Tensor]:
        """The outputs by path; none where eager PyTorch does not run the model, which is no matter of ours."""
        try:
            with kept(trial.function):
                torch.manual_seed(trial.seed)
                return {path: t.detach() for path, t in tensors(trial.function(*copied(args)))}
        except Exception:
            return {}

    def compare(self, found: Sequence[tuple[str, str]], outputs: Any, eager: dict[str, torch.Tensor]) -> None:
        """``found``: (key of a graph's output, path in the model's outputs)."""
        fused = dict(tensors(outputs))
        for key, path in found:
            ours, theirs = fused[path].detach().cpu(), eager.get(path)
            if theirs is not None and theirs.dtype == ours.dtype and theirs.shape == ours.shape:
                made = errors(ours, theirs.cpu())
                known = self._errors.get(key)
                self._errors[key] = made if known is None else known.merged(made)

    def of(self, output: OutputCheck) -> OutputCheck:
        return replace(output, eager=self._errors.get(output.name))


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
