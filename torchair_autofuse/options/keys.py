"""The documented keys of AUTOFUSE_FLAGS and AUTOFUSE_DFX_FLAGS, and how the text of a value is read."""

from __future__ import annotations

import re
from dataclasses import dataclass

FLAGS = "AUTOFUSE_FLAGS"
DFX = "AUTOFUSE_DFX_FLAGS"
UINT64_MAX = 2**64 - 1

Value = bool | int | str | tuple[str, ...]


class BadValue(ValueError):
    """A value's text does not fit its key; the message says what was expected."""


@dataclass(frozen=True)
class Key:
    """One key of a flag variable.

    ``kind`` is bool, int, choice, list, text or path. ``default`` is the value CANN takes when the key is absent; for a
    key that only CANN uses (``cann_only``) a value equal to it asks for nothing, so it is accepted without a warning.
    """

    name: str
    variable: str
    kind: str
    default: str = ""
    low: int = 0
    high: int = UINT64_MAX
    choices: tuple[str, ...] = ()
    pattern: str = ""
    expected: str = ""  # what a text must look like, for the message
    cann_only: bool = False

    def parse(self, text: str) -> Value:
        """The value written as ``text``. Raises BadValue."""
        return _PARSERS[self.kind](self, text)


def _boolean(key: Key, text: str) -> Value:
    lower = text.lower()
    if lower in ("true", "false"):
        return lower == "true"
    hint = {"1": "true", "on": "true", "yes": "true", "0": "false", "off": "false", "no": "false"}.get(lower)
    raise BadValue("expected true or false" + (f"; write {hint}" if hint else ""))


def _integer(key: Key, text: str) -> Value:
    digits = text.rstrip(",. ")  # CANN allows punctuation after the digits
    if re.fullmatch(r"[+-]?[0-9]{1,20}", digits) and key.low <= int(digits) <= key.high:
        return int(digits)
    if key.high == UINT64_MAX:
        raise BadValue(f"expected an integer of at least {key.low}")
    raise BadValue(f"expected an integer from {key.low} to {key.high}")


def _choice(key: Key, text: str) -> Value:
    for choice in key.choices:
        if choice.lower() == text.lower():
            return choice
    raise BadValue("expected " + " or ".join(key.choices))


def _words(key: Key, text: str) -> Value:
    return split_list(text)


def _text(key: Key, text: str) -> Value:
    if re.fullmatch(key.pattern or r"(?s:.+)", text):
        return text
    raise BadValue(f"expected {key.expected or 'a text that is not empty'}")


_PARSERS = {"bool": _boolean, "int": _integer, "choice": _choice, "list": _words, "text": _text, "path": _text}


def split_list(text: str) -> tuple[str, ...]:
    """The items of a comma list, trimmed, without empty and repeated ones, in order."""
    items = (item.strip() for item in re.split("[,，]", text))
    return tuple(dict.fromkeys(item for item in items if item))


def show(value: Value) -> str:
    """The text of a value, as a flag is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


_PATH = "a path"
_CASES = "tiling cases such as 1101, 1101_R or g0_3,g1_5_R"
_SHOWN = (
    Key("enable_autofuse", FLAGS, "bool", "false"),
    Key("autofuse_enable_pass", FLAGS, "list"),
    Key("autofuse_disable_pass", FLAGS, "list"),
    Key("recomputation_threshold", FLAGS, "int", "1", 0, 255),
    Key("max_fusion_size", FLAGS, "int", "64"),
    Key("autofuse_enhance_precision_blacklist", FLAGS, "list", cann_only=True),
    Key("autofuse_enable_pgo", FLAGS, "bool", "false", cann_only=True),
    Key("experimental_enable_jit_executor_v2", FLAGS, "bool", "false", cann_only=True),
    Key("codegen_compile_debug", DFX, "bool", "false"),
    Key("debug_dir", DFX, "path", expected=_PATH),
    Key("skip_node_names_cfg", DFX, "path", expected=_PATH),
    Key("autofuse_att_algorithm", DFX, "choice", "AxesReorder", choices=("AxesReorder", "HighPerf"), cann_only=True),
    Key("att_accuracy_level", DFX, "int", "1", 0, 1, cann_only=True),
    Key("att_enable_multicore_ub_tradeoff", DFX, "bool", "false", cann_only=True),
    Key("att_ub_threshold", DFX, "int", "20", 0, 100, cann_only=True),
    Key("att_corenum_threshold", DFX, "int", "40", 0, 100, cann_only=True),
    Key("att_enable_small_shape_strategy", DFX, "bool", "false", cann_only=True),
    Key("autofuse_enable_tiling_cache", DFX, "bool", cann_only=True),  # its default is not documented
    Key("att_profiling", DFX, "bool", "false", cann_only=True),
    Key("autofuse_pgo_algo", DFX, "choice", "core_select", choices=("core_select", "pruning"), cann_only=True),
    Key("autofuse_pgo_step_max", DFX, "int", "16", 1, 1024, cann_only=True),
    Key("autofuse_pgo_topn", DFX, "int", "5", cann_only=True),
    Key("disable_lifting", DFX, "bool", "false", cann_only=True),
    Key("subgraph_recover", DFX, "bool", "false", cann_only=True),
    Key("replace_kernel", DFX, "path", expected=_PATH, cann_only=True),
    Key("force_schedule_result", DFX, "int", "-1", -1, 100, cann_only=True),
    Key("force_tiling_case", DFX, "text", pattern=r"\w+(?:,\w+)*", expected=_CASES, cann_only=True),
    Key("force_template_op_name", DFX, "text", cann_only=True),
)

KEYS: dict[str, Key] = {key.name: key for key in _SHOWN}
