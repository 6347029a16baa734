"""The records of a fusion report. ``str(report)`` is for people, ``to_dict`` for tools."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from torchair_autofuse.messages import CODES, RULES, Reason
from torchair_autofuse.report.text import render

VERSION = 2  # of the dict form; 1 has no ``Why`` and none of what a fused op's nodes take alone
READABLE = (1, 2)


@dataclass(frozen=True)
class Why:
    """One of the rules (messages.RULES) that made a fused op, and the numbers that count for it."""

    rule: str
    text: str

    def __post_init__(self) -> None:
        _texts(self, "rule", "text")
        if self.rule not in RULES:
            raise ValueError(f"unknown rule of a fused op {self.rule!r}: expected one of {', '.join(RULES)}")


@dataclass(frozen=True)
class FusedOp:
    """One fused op and the GE nodes it replaces.

    ``nodes`` and ``node_types`` run in parallel. ``ub_bytes``: peak use of UB on one core. ``gm_bytes``: bytes read
    from and written to global memory, every pass counted; ``gm_bytes_floor``: inputs and outputs once; both None when
    a symbolic size has no hint. ``predicted_us``: microseconds by the cost model, never measured;
    ``predicted_us_alone``, ``gm_bytes_alone``, ``kernels_alone``: of its nodes as kernels of their own. ``inputs``,
    ``outputs``: tensors as text such as ``f32[s0,64]``. ``patterns``: names of the patterns that lie inside it
    (plan.patterns), the larger ones first. ``pipes_us``: predicted microseconds of launch and heads ("launch") and of
    the busiest core's loads ("MTE2"), "vector" instructions and stores ("MTE3"), which overlap; ``limit``: the one that
    takes longest, "" if unknown. ``why``: what put its nodes together.
    """

    op_type: str
    nodes: tuple[str, ...]
    node_types: tuple[str, ...]
    template: str
    ub_bytes: int
    gm_bytes: int | None = None
    gm_bytes_floor: int | None = None
    predicted_us: float | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    predicted_us_alone: float | None = None
    patterns: tuple[str, ...] = ()
    kernels_alone: int | None = None
    gm_bytes_alone: int | None = None
    pipes_us: Mapping[str, float] = field(default_factory=dict, hash=False)
    limit: str = ""
    why: tuple[Why, ...] = ()

    def __post_init__(self) -> None:
        _texts(self, "op_type", "template", "limit")
        for name in ("nodes", "node_types", "inputs", "outputs", "patterns"):
            object.__setattr__(self, name, _tuple(self, name, str))
        if len(self.nodes) != len(self.node_types):
            counts = f"{len(self.nodes)} nodes, {len(self.node_types)} types"
            raise ValueError(f"FusedOp {self.op_type}: expected one node type per node, got {counts}")
        object.__setattr__(self, "why", _tuple(self, "why", Why))
        object.__setattr__(self, "pipes_us", _times(self, "pipes_us"))
        sizes = ("gm_bytes", "gm_bytes_floor", "kernels_alone", "gm_bytes_alone")
        _numbers(self, ("ub_bytes",), sizes, ("predicted_us", "predicted_us_alone"))


@dataclass(frozen=True)
class Refusal:
    """Why ``node`` was not fused with ``other`` ("" when the reason lies in ``node`` alone)."""

    node: str
    other: str
    code: str
    reason: str

    def __post_init__(self) -> None:
        _texts(self, "node", "other", "code", "reason")
        if self.code not in CODES:
            raise ValueError(f"Refusal of {self.node}: unknown message code {self.code!r}")


class Details(Protocol):
    """What a page shows beside the report itself."""

    def page(self, report: FusionReport) -> dict[str, Any]: ...


@dataclass(frozen=True)
class FusionReport:
    """What happened to one GE graph.

    Kernels are GE nodes that launch device work. ``gm_bytes_*`` are bytes (None: unknown), the floor is that of the
    kernels after fusion; ``predicted_us_*`` microseconds by the cost model. ``seconds``: of each stage, in order.
    ``rolled_back``: why the rewrite was dropped; the graph then runs as it was. ``run_unfused``: it was only planned.
    ``route``: how the fused ops reach the kernels ("host", "package", "jit"), "" when nothing asked for them.
    ``options``: those that shape plans and are not at their defaults, "" for none.
    ``details``: graphs, sources and UB plans for ``to_html``; they stay in the process that fused: neither ``to_dict``
    nor a pickle has them, and they do not count when reports are compared.
    """

    graph_name: str
    kernels_before: int
    kernels_after: int
    gm_bytes_before: int | None = None
    gm_bytes_after: int | None = None
    gm_bytes_floor: int | None = None
    predicted_us_before: float | None = None
    predicted_us_after: float | None = None
    fused: tuple[FusedOp, ...] = ()
    refused: tuple[Refusal, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict, hash=False)
    soc: str = ""
    rolled_back: Reason | None = None
    warnings: tuple[Reason, ...] = ()
    run_unfused: bool = False
    route: str = ""
    options: str = ""
    details: Details | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _texts(self, "graph_name", "soc", "route", "options")
        for name, kind in (("fused", FusedOp), ("refused", Refusal), ("warnings", Reason)):
            object.__setattr__(self, name, _tuple(self, name, kind))
        object.__setattr__(self, "seconds", _times(self, "seconds"))
        _numbers(
            self,
            ("kernels_before", "kernels_after"),
            ("gm_bytes_before", "gm_bytes_after", "gm_bytes_floor"),
            ("predicted_us_before", "predicted_us_after"),
        )

    def __str__(self) -> str:
        return render(self)

    def to_dict(self) -> dict[str, Any]:
        """Dicts, lists, strings and numbers only: ready for ``json.dumps``. Read back by ``from_dict``."""
        data = plain(asdict(replace(self, details=None)))
        del data["details"]
        return {"version": VERSION, **data}

    def to_html(self, path: str | Path) -> None:
        """Writes one HTML page that opens offline: tables, and with ``details`` both graphs, sources and UB plans.

        Raises OSError when the file cannot be written.
        """
        from torchair_autofuse.report.html import write

        write([self], path)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "details": None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FusionReport:
        """The report ``to_dict`` was called on. Raises ValueError for another version or a missing or unknown field."""
        if not isinstance(data, Mapping) or data.get("version") not in READABLE:
            version = data.get("version") if isinstance(data, Mapping) else data
            raise ValueError(f"not a fusion report of version {VERSION} or before: version is {version!r}")
        values = {name: value for name, value in data.items() if name != "version"}
        if "details" in values:
            raise ValueError("fusion report: field 'details' is unknown")
        try:
            values["fused"] = tuple(_fused_op(op) for op in values["fused"])
            values["refused"] = tuple(Refusal(**refusal) for refusal in values["refused"])
            values["warnings"] = tuple(Reason(**warning) for warning in values["warnings"])
            if values["rolled_back"] is not None:
                values["rolled_back"] = Reason(**values["rolled_back"])
            return cls(**values)
        except KeyError as error:
            raise ValueError(f"fusion report: field {error} is missing") from error
        except (TypeError, OverflowError) as error:
            raise ValueError(f"fusion report: {error}") from error


def _fused_op(values: Mapping[str, Any]) -> FusedOp:
    return FusedOp(**{**values, "why": tuple(Why(**why) for why in values.get("why", ()))})


def plain(value: Any) -> Any:
    """``value`` with lists for tuples, all the way down."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def _tuple(record: object, name: str, kind: type) -> tuple[Any, ...]:
    value = getattr(record, name)
    if isinstance(value, str) or not isinstance(value, (tuple, list)) or not all(isinstance(v, kind) for v in value):
        raise ValueError(f"{type(record).__name__}.{name}: expected a tuple of {kind.__name__}, got {value!r}")
    return tuple(value)


def _times(record: object, name: str) -> dict[str, float]:
    value = getattr(record, name)
    if not isinstance(value, Mapping):
        raise ValueError(f"{type(record).__name__}.{name}: expected numbers by name, got {value!r}")
    return {key: float(number) for key, number in value.items()}


def _texts(record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if not isinstance(value, str):
            raise ValueError(f"{type(record).__name__}.{name}: expected a text, got {value!r}")


def _numbers(record: object, counts: tuple[str, ...], sizes: tuple[str, ...], times: tuple[str, ...]) -> None:
    """Plain ints and floats (numpy's and sympy's are not JSON); a time that is not finite is unknown."""
    for name in (*counts, *sizes, *times):
        value = getattr(record, name)
        if value is None and name not in counts:
            continue
        wanted = float if name in times else int
        try:
            number = wanted(value)
            finite = math.isfinite(number)
        except (TypeError, ValueError, OverflowError):  # a count that is infinite, or that no float can show
            text = f"{type(record).__name__}.{name}: expected a number{'' if name in counts else ' or None'}"
            raise ValueError(f"{text}, got {value!r}") from None
        object.__setattr__(record, name, number if finite else None)
