"""``Options``: everything the user can choose, as one frozen record."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import platformdirs

from torchair_autofuse.messages import Reason
from torchair_autofuse.options.keys import UINT64_MAX

PASSES: tuple[str, ...] = ("reduce", "concat", "slice", "split", "transpose", "gather")
"""Passes that are off until enabled; elementwise and broadcast come with ``enabled``."""
CANN_ONLY_PASSES: tuple[str, ...] = ("matmul", "conv")
PRECISIONS: tuple[str, ...] = ("fp32", "strict")
PLANNERS: tuple[str, ...] = ("greedy", "partition")
ROUTES: tuple[str, ...] = ("auto", "package", "jit", "host", "off")

DEFAULT_CACHE_LIMIT = 2_000_000_000
"""Bytes."""

_NO_DIGEST = frozenset({
    # where things go and how failures are met, not what is generated
    "strict", "cache_dir", "route", "package", "debug_dir", "keep_sources", "skip_list", "cost_file",
    "cann_only", "warnings", "cache_limit",
})  # fmt: skip


def default_cache_dir() -> str:
    """The user's cache folder for this package, by the platform's convention."""
    return platformdirs.user_cache_dir("torchair_autofuse", appauthor=False)


@dataclass(frozen=True)
class Options:
    """What the user chose. Fields are checked when it is made: ValueError names the field and what was expected.

    ``enabled``: rewrite graphs at all.  ``passes``: of ``PASSES``; "all" stands for every one.
    ``recomputation_threshold``: a value with more readers than this is stored, not computed again (0..255); None: what
    is predicted to be faster.
    ``max_fusion_size``: most nodes in one fused op; None: what UB allows; 0: no fusion.
    ``precision``: "fp32", or "strict" to round after every original op.  ``soc``: the chip to plan for.
    ``planner``: "greedy", or "partition" (plan.partition).
    ``costs``: numbers of the cost model in place of the built-in ones (soc.override); ``cost_file`` they came from.
    ``max_fusions``: stop after so many fused ops (bisecting); None: no limit.
    ``run_unfused``: plan and report, but run the graph as it was.
    ``disabled_patterns``: names of patterns (plan.patterns) whose ops are not fused.
    ``skip_nodes``, ``skip_types``: node names and op types that stay; ``skip_list`` the file they came from, if any.
    ``strict``: a failure of the plugin is raised instead of rolled back.  ``cache_dir``: "" for the default.
    ``cache_limit``: bytes that the cache may take, after which what was not used for longest is deleted; 0: no limit.
    ``route``: how fused ops reach the device (deliver.route); "off": they do not, as ``run_unfused``.
    ``package``: folder of the op package for route "package"; "": the one in the cache, if any (deliver.package).
    ``debug_dir``, ``keep_sources``: where and whether sources and graphs are kept beside the cache.
    ``cann_only``: checked flags that only CANN's own AutoFuse acts on.  ``warnings``: what was wrong with the flags.
    """

    enabled: bool = False
    passes: frozenset[str] = frozenset()
    recomputation_threshold: int | None = None
    max_fusion_size: int | None = None
    precision: str = "fp32"
    soc: str = "Ascend910B1"
    planner: str = "greedy"
    costs: tuple[tuple[str, str, tuple[float, ...]], ...] = ()
    cost_file: str = ""
    max_fusions: int | None = None
    run_unfused: bool = False
    disabled_patterns: frozenset[str] = frozenset()
    skip_nodes: frozenset[str] = frozenset()
    skip_types: frozenset[str] = frozenset()
    skip_list: str = ""
    strict: bool = False
    cache_dir: str = ""
    cache_limit: int = DEFAULT_CACHE_LIMIT
    route: str = "auto"
    package: str = ""
    debug_dir: str = ""
    keep_sources: bool = False
    cann_only: tuple[tuple[str, str], ...] = ()
    warnings: tuple[Reason, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name in ("enabled", "run_unfused", "strict", "keep_sources"):
            _require(isinstance(getattr(self, name), bool), name, "True or False", getattr(self, name))
        for name in ("soc", "skip_list", "cost_file", "cache_dir", "package", "debug_dir"):
            _require(isinstance(getattr(self, name), str), name, "a string", getattr(self, name))
        for name in ("passes", "disabled_patterns", "skip_nodes", "skip_types"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        _choose(self, "precision", PRECISIONS)
        _choose(self, "planner", PLANNERS)
        _choose(self, "route", ROUTES)
        _integer(self, "recomputation_threshold", 255, none=True)
        _integer(self, "max_fusion_size", UINT64_MAX, none=True)
        _integer(self, "max_fusions", UINT64_MAX, none=True)
        _integer(self, "cache_limit", UINT64_MAX, none=False)
        _require(bool(re.fullmatch(r"\w+", self.soc)), "soc", "a chip name such as Ascend910B1", self.soc)
        pairs = isinstance(self.cann_only, tuple) and all(
            isinstance(p, tuple) and len(p) == 2 and all(isinstance(s, str) for s in p) for p in self.cann_only
        )
        if self.disabled_patterns:
            from torchair_autofuse.plan.patterns.library import patterns

            strange = sorted(self.disabled_patterns - patterns().keys())
            _require(not strange, "disabled_patterns", "names of patterns", ", ".join(strange))
        numbers = isinstance(self.costs, tuple) and all(
            isinstance(e, tuple) and len(e) == 3 and isinstance(e[2], tuple) for e in self.costs
        )
        _require(numbers, "costs", "a tuple of (chip, name, values)", self.costs)
        _require(pairs, "cann_only", "a tuple of (key, value) pairs of strings", self.cann_only)
        reasons = isinstance(self.warnings, tuple) and all(isinstance(w, Reason) for w in self.warnings)
        _require(reasons, "warnings", "a tuple of Reason", self.warnings)
        self._settle_passes()
        if self.route == "off":  # nothing is delivered, so nothing may be rewritten
            object.__setattr__(self, "run_unfused", True)

    def _settle_passes(self) -> None:
        unknown = sorted(self.passes - {"all", *PASSES, *CANN_ONLY_PASSES})
        _require(not unknown, "passes", f"names of {', '.join(PASSES)} or all", ", ".join(unknown))
        for name in CANN_ONLY_PASSES:
            if name in self.passes:
                self._warn(Reason("AF106", f"pass '{name}' has no effect: {name} nodes are not fused in this release"))
        object.__setattr__(
            self, "passes", frozenset(PASSES) if "all" in self.passes else self.passes - frozenset(CANN_ONLY_PASSES)
        )

    def _warn(self, reason: Reason) -> None:
        object.__setattr__(self, "warnings", tuple(dict.fromkeys((*self.warnings, reason))))

    @classmethod
    def from_flags(cls, flags: str, dfx: str | None = None, environ: Mapping[str, str] | None = None) -> Options:
        """Options from the text of AUTOFUSE_FLAGS and, unless None, of AUTOFUSE_DFX_FLAGS; all else from ``environ``
        (the process's when None). What is wrong in the text is in ``warnings``. Raises TypeError if it is no text."""
        from torchair_autofuse.options.keys import DFX, FLAGS
        from torchair_autofuse.options.read import read_options

        for name, text in (("flags", flags), ("dfx", "" if dfx is None else dfx)):
            if not isinstance(text, str):
                raise TypeError(f"{name}: expected a string such as '--enable_autofuse=true', got {text!r}")
        variables = dict(os.environ if environ is None else environ)
        variables[FLAGS] = flags
        if dfx is not None:
            variables[DFX] = dfx
        return read_options(variables)

    def replace(self, **changes: Any) -> Options:
        """A copy with the given fields changed. Raises ValueError for a bad value or a name that is no field."""
        known = {f.name for f in dataclasses.fields(self)}
        for name in changes:
            if name not in known:
                from torchair_autofuse.options.grammar import suggestion

                raise ValueError(f"Options has no field {name!r}{suggestion(name, known)}")
        return dataclasses.replace(self, **changes)

    def switched_on(self) -> Options:
        """A copy with fusion on, for a caller that is the switch itself: a warning that the flags lack it is gone."""
        from torchair_autofuse.options.read import PASSES_WITHOUT_SWITCH

        kept = tuple(w for w in self.warnings if w != PASSES_WITHOUT_SWITCH)
        return dataclasses.replace(self, enabled=True, warnings=kept)

    def cache_root(self) -> str:
        """The cache folder in use, absolute: ``cache_dir`` if given, else the default."""
        return os.path.abspath(os.path.expanduser(self.cache_dir or default_cache_dir()))

    def digest(self) -> str:
        """16 hex digits over the fields that change the rewritten graph or its kernels; the same in every process."""
        state: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            if field.name not in _NO_DIGEST:
                value = getattr(self, field.name)
                state[field.name] = sorted(value) if isinstance(value, frozenset) else value
        return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]

    def planning(self) -> str:
        """What shapes plans beside switch, passes and chip and is not at its default: ``planner = partition, ...``."""
        apart = _NO_DIGEST | {"enabled", "passes", "soc", "run_unfused"}
        shown = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in apart or value == field.default:
                continue
            name = "cost_file" if field.name == "costs" else field.name
            if name == "cost_file":
                value = self.cost_file or "(numbers given)"
            elif isinstance(value, frozenset):
                value = " ".join(sorted(value))
            shown.append(f"{name} = {value}")
        return ", ".join(shown)

    def to_environ(self) -> dict[str, str]:
        """The variables that ``read_options`` reads back as these options, for a child process.

        Raises ValueError naming the fields that no variable can carry: nodes to skip that came from no file, a path
        with a ``;`` in it.
        """
        from torchair_autofuse.options.read import read_options, write_environ

        variables = write_environ(self)
        back = read_options(variables)
        lost = [
            f.name for f in dataclasses.fields(self) if f.compare and getattr(self, f.name) != getattr(back, f.name)
        ]
        if lost:
            raise ValueError(f"these options cannot be written as environment variables: {', '.join(lost)}")
        return variables


def _require(ok: bool, field: str, expected: str, value: object) -> None:
    if not ok:
        raise ValueError(f"Options.{field}: expected {expected}, got {value!r}")


def _choose(options: Options, field: str, choices: tuple[str, ...]) -> None:
    value = getattr(options, field)
    _require(isinstance(value, str) and value in choices, field, " or ".join(map(repr, choices)), value)


def _integer(options: Options, field: str, high: int, *, none: bool) -> None:
    value = getattr(options, field)
    if none and value is None:
        return
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= high
    expected = f"an integer from 0 to {high}" if high < UINT64_MAX else "an integer of at least 0"
    _require(ok, field, expected + (" or None" if none else ""), value)


def _names(field: str, value: object) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, (frozenset, set, tuple, list)):
        raise ValueError(f"Options.{field}: expected a set of names, got {value!r}")
    _require(all(isinstance(v, str) for v in value), field, "a set of names", value)
    return frozenset(value)
