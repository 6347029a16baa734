"""What a decision of a report must show: its rule, and the number or fact that decided."""

from __future__ import annotations

import re

from torchair_autofuse.messages import RULES
from torchair_autofuse.report import FusedOp, FusionReport, Refusal

_TENSOR = r"\S+:\d+"
_SIZES = r"\[[^\]]*\]"
_NUMBERS = r"\d+ .*\b\d+"
FACTS: dict[str, str] = {
    "AF201": r"^\w+ has no lowering$",  # the op type
    "AF202": r"\b(?:bf16|[fiu](?:8|16|32|64)|bool|complex\w*)\b|out of range|only a part|index that varies",
    "AF203": rf"(?:shape|dtype) of {_TENSOR} is unknown",
    "AF204": _SIZES,
    "AF205": rf"{_SIZES}|{_NUMBERS}",
    "AF206": r"\S+ \(\w+\) lies on a path between \S+ (?:with \d+ more )?and \S+",
    "AF207": r"scope labels '.*' of \S+ and '.*' of \S+",
    "AF208": r"has a (?:control edge|side effect)",
    "AF209": rf"{_TENSOR} is written into {_TENSOR}|\(\w+\) has to read or write in between"
    r"|\(\w+\) overwrites memory that \w+ reads",
    "AF210": rf"{_SIZES}|{_TENSOR}|a stride of \d+|32-byte|is not possible|loops need|passes over|tiles of columns",
    "AF211": _TENSOR,
    "AF212": _NUMBERS,
    "AF213": _NUMBERS,
    "AF214": r"(?:keep|skip_nodes|skip_types) has \S+|switched off: \S+",
    "AF215": r"--autofuse_enable_pass=\w+",
    "AF216": (
        r"has no neighbour to fuse with; it .*(?:\d+ ns \(predicted\) and moves \d+ bytes|unknown without example)"
        rf"|\d+ ns, .* \d+ ns|its shape is {_SIZES}|nothing outside the cluster of \S+"
    ),
    "AF217": r"no input has a dim that gives \w+",
    "AF218": r"\S+: \S+|by a tensor of one constant",
    "AF220": r"\d+ readers?, (?:--recomputation_threshold is \d+|and its size)|take \d+ ns instead of \d+ \(pred",
    "AF221": r"max_fusions = \d+",
    "AF223": rf"out\d+{_SIZES}.*",
    "AF224": (
        r"live memory would peak at \d+ bytes instead of \d+, more than \d+ %"
        rf"|\d+ nodes (?:earlier|apart), more than \d+, to read {_TENSOR} of"
    ),
}
"""Per code that the planner gives what its text has to hold."""


def untraceable(report: FusionReport) -> list[str]:
    """The refusals and fused ops of a report, of a graph with example sizes, that do not say why."""
    found = [f"{r.code} {r.node} {r.other}: {r.reason}" for r in report.refused if not refusal_says_why(r)]
    return found + [f"{op.op_type} {op.nodes}: {what}" for op in report.fused for what in missing(op)]


def refusal_says_why(refusal: Refusal) -> bool:
    return refusal.code in FACTS and re.search(FACTS[refusal.code], refusal.reason) is not None


def missing(op: FusedOp) -> list[str]:
    """What the record of a fused op lacks of kernels, bytes, times, limit and rules, or where these do not agree."""
    numbers = (op.kernels_alone, op.gm_bytes_alone, op.gm_bytes, op.predicted_us_alone, op.predicted_us)
    found = ["a number is unknown"] if None in numbers else []
    if (op.kernels_alone or 0) < 2:
        found.append(f"{op.kernels_alone} kernels became one")
    if op.predicted_us is not None:
        longest = max(op.pipes_us.values(), default=0.0)
        if list(op.pipes_us) != ["launch", "MTE2", "vector", "MTE3"] or op.pipes_us.get(op.limit) != longest:
            found.append(f"limit {op.limit!r} of {op.pipes_us}")
        if longest > op.predicted_us + 0.001:
            found.append(f"a pipe takes {longest} us of {op.predicted_us}")
    if not op.why:
        found.append("no rule")
    return found + [f"{w.rule}: {w.text}" for w in op.why if w.rule not in RULES or not re.search(r"\d", w.text)]
