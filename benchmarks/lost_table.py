"""Tables of the merges that the upper bound makes and the plan does not: by refusal code, and by pair of ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.bound import upper_bound
from benchmarks.captured import Case
from benchmarks.losses import Loss, losses
from benchmarks.section import Section
from torchair_autofuse.messages import CODES

_PAIRS = 12
_EXAMPLE_CHARS = 110


def lost_sections(cases: Sequence[Case], kind: str, scope: str) -> list[Section]:
    """Both tables over ``cases``, for the bound of ``scope``; ``kind`` ("static", "dynamic") is for the titles."""
    lost = {c.name: losses(c.simplified, upper_bound(c.simplified, scope), c.result.report) for c in cases}
    title = f"Where the rest is lost in {kind} graphs: merges of the {scope} bound that are not made"
    return [_by_code(lost, title), _by_pair(lost)]


def _by_code(lost: dict[str, list[Loss]], title: str) -> Section:
    counts = Counter(loss.code for found in lost.values() for loss in found)
    where = Counter(code for found in lost.values() for code in {loss.code for loss in found})
    example: dict[str, str] = {}
    for name, found in lost.items():
        for loss in found:
            example.setdefault(loss.code, f"{name.split('__')[0]}: {loss.reason}"[:_EXAMPLE_CHARS])
    rows: list[tuple[object, ...]] = [
        (code, CODES.get(code, "the report does not say"), count, where[code], example[code])
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    rows.append(("total", "", sum(counts.values()), sum(bool(found) for found in lost.values()), ""))
    return Section(title, ("code", "meaning", "merges", "graphs", "for example"), tuple(rows))


def _by_pair(lost: dict[str, list[Loss]]) -> Section:
    counts = Counter((loss.code, loss.producer_type, loss.consumer_type) for found in lost.values() for loss in found)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_PAIRS]
    rows = tuple((*key, count) for key, count in most)
    return Section(f"The {len(most)} most frequent of them", ("code", "producer", "consumer", "merges"), rows)
