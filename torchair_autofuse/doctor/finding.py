"""What doctor finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """``state``: "ok", "note" or "missing"; ``advice``: what to do, "" if nothing."""

    what: str
    state: str
    text: str
    advice: str = ""
