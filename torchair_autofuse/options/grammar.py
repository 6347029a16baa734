"""The grammar of a flag variable: ``--key=value;--key=value``, read more tolerantly than CANN's own parsers do.

Tolerated: spaces around everything, a missing or short ``--``, any case in keys, a trailing ``;``, flags separated by
white space, quotes around a value or the whole text, full-width punctuation. All else is reported, never dropped.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType

from torchair_autofuse.messages import Reason
from torchair_autofuse.options.keys import KEYS, BadValue, Value

# Settings that have a variable of their own; somebody may well write them as a flag.
OWN_VARIABLES: Mapping[str, str] = MappingProxyType({
    "cache_dir": "TORCHAIR_AUTOFUSE_CACHE_DIR",
    "cache_limit": "TORCHAIR_AUTOFUSE_CACHE_LIMIT",
    "strict": "TORCHAIR_AUTOFUSE_STRICT",
    "soc": "TORCHAIR_AUTOFUSE_SOC",
    "planner": "TORCHAIR_AUTOFUSE_PLANNER",
    "precision": "TORCHAIR_AUTOFUSE_PRECISION",
    "max_fusions": "TORCHAIR_AUTOFUSE_MAX_FUSIONS",
    "cost_file": "TORCHAIR_AUTOFUSE_COST",
    "route": "TORCHAIR_AUTOFUSE_ROUTE",
    "package": "TORCHAIR_AUTOFUSE_PACKAGE",
})  # fmt: skip

_QUOTES = "\"'“”‘’"
_PAIRS = ('""', "''", "“”", "‘’")
_DASHES = "-‐‑–—"
_FULL_WIDTH = str.maketrans({"；": ";", "＝": "="})
# What follows looks like a flag: dashes and a word, or a known key, then "=".
_NEXT_FLAG = rf"(?=(?:[{_DASHES}]{{1,2}}\w+|{'|'.join(KEYS)})\s*=)"
_AFTER_COMMA = re.compile(rf"[,，]\s*{_NEXT_FLAG}", re.IGNORECASE)
_AFTER_SPACE = re.compile(rf"\s{_NEXT_FLAG}", re.IGNORECASE)


def unquote(text: str) -> str:
    """``text`` trimmed, without a pair of quotes that encloses it."""
    text = text.strip()
    if len(text) >= 2 and text[0] + text[-1] in _PAIRS:
        inner = text[1:-1]
        if not any(quote in inner for quote in _QUOTES):
            return inner.strip()
    return text


def suggestion(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the known word nearest to ``word``, or nothing."""
    near = difflib.get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def clip(text: str) -> str:
    """``text`` short enough for a message."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def parse_size(text: str) -> int | None:
    """Bytes of a size such as ``500MB``, ``2 GiB``, ``1.5g`` or ``1000000``; None for what is no size.

    KB, MB, GB, TB (and K, M, G, T) are powers of 1000, KiB and so on of 1024.
    """
    match = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,6})?)\s*(?:([kmgt])(i?)b?|b)?", text.strip().lower(), re.ASCII)
    if match is None:
        return None
    base = 1024 if match[3] else 1000
    return int(Fraction(match[1]) * base ** (" kmgt".index(match[2]) if match[2] else 0))


def parse_flags(text: str, variable: str) -> tuple[dict[str, Value], tuple[Reason, ...]]:
    """The keys of one flag variable with their checked values, and a warning for each thing that is wrong
    (an item written twice is warned about twice).

    Never raises. The last of several values of a key wins; a bad value leaves the key out, so that its default holds.
    """
    warnings: list[Reason] = []
    texts: dict[str, str] = {}
    for item in _items(text, variable, warnings):
        name, equals, value = item.partition("=")
        name, value = name.strip().strip(_DASHES + _QUOTES).strip(), value.strip()
        if not equals or not name:
            warnings.append(Reason("AF102", f"{variable}: {clip(item)} is ignored; write {_example(name)}"))
            continue
        key = KEYS.get(name.lower())
        if key is None or key.variable != variable:
            warnings.append(Reason("AF101", _unknown(name, variable)))
            continue
        plain = unquote(value)
        if plain == value and plain.strip(_QUOTES) != plain:
            plain = plain.strip(_QUOTES).strip()
            warnings.append(Reason("AF102", f"{variable}: unbalanced quote in {clip(item)}; read as {clip(plain)}"))
        if "=" in plain and key.kind not in ("path", "text"):
            warnings.append(Reason("AF102", f"{variable}: {clip(item)} is ignored: it has more than one '='"))
            continue
        texts[key.name] = plain
    found: dict[str, Value] = {}
    for name, plain in texts.items():
        try:
            found[name] = KEYS[name].parse(plain)
        except BadValue as bad:
            warnings.append(Reason("AF103", f"{variable}: --{name}={clip(plain)} is ignored: {bad}"))
    return found, tuple(warnings)


def _items(text: str, variable: str, warnings: list[Reason]) -> list[str]:
    items: list[str] = []
    for part in unquote(text.translate(_FULL_WIDTH)).split(";"):
        # A flag after a comma: the comma would otherwise end up in the value of the flag before it.
        pieces = _AFTER_COMMA.split(part)
        if len(pieces) > 1:
            warnings.append(Reason("AF102", f"{variable}: flags are separated by ';', not ',' in {clip(part.strip())}"))
        for piece in pieces:
            items.extend(unquote(item) for item in _AFTER_SPACE.split(piece))
    return [item for item in items if item.strip(_QUOTES + _DASHES + ", ")]


def _example(name: str) -> str:
    """How an item without a key or a "=" should have been written."""
    key = KEYS.get(name.lower())
    if key is None:
        return "--key=value" + suggestion(name.replace("-", "_"), KEYS)
    values = {"bool": "true", "int": key.default, "choice": key.default, "list": "reduce,concat"}
    return f"--{key.name}={values.get(key.kind, 'value')}"


def _unknown(name: str, variable: str) -> str:
    lower = name.lower()
    other = KEYS.get(lower)
    if other is not None:
        return f"{variable}: --{lower} is ignored here; it belongs to {other.variable}"
    if lower in OWN_VARIABLES:
        return f"{variable}: --{lower} is not a key; set {OWN_VARIABLES[lower]} instead"
    hint = suggestion(lower.replace("-", "_"), (n for n, key in KEYS.items() if key.variable == variable))
    if not hint:
        near = difflib.get_close_matches(lower.replace("-", "_"), sorted(KEYS), n=1, cutoff=0.8)
        hint = f" (did you mean {near[0]!r} in {KEYS[near[0]].variable}?)" if near else ""
    return f"{variable}: unknown key {clip('--' + name)} is ignored{hint}"
