"""Environment variables -> ``Options``, and back."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any

from torchair_autofuse.messages import Reason
from torchair_autofuse.options.grammar import OWN_VARIABLES, clip, parse_flags, parse_size, suggestion, unquote
from torchair_autofuse.options.keys import DFX, FLAGS, KEYS, UINT64_MAX, Value, show, split_list
from torchair_autofuse.options.model import CANN_ONLY_PASSES, PASSES, PLANNERS, PRECISIONS, ROUTES, Options
from torchair_autofuse.options.skip import read_skip_list
from torchair_autofuse.soc.override import read_costs

GF_DEBUG = "GF_AUTOFUSION_DEBUG"
GF_DISABLE = "GF_AUTOFUSION_DISABLE"

PASSES_WITHOUT_SWITCH = Reason("AF106", f"{FLAGS}: passes have no effect without --enable_autofuse=true")

_TRUE = ("1", "true", "on", "yes")
_FALSE = ("0", "false", "off", "no", "")
_ALWAYS_ON = ("elementwise", "element", "elemwise", "pointwise", "broadcast")
_PASS_WORDS = {
    "reduction": "reduce", "sum": "reduce", "mean": "reduce", "softmax": "reduce", "norm": "reduce",
    "layernorm": "reduce",
    "cat": "concat", "concatenate": "concat", "permute": "transpose", "strided_slice": "slice", "mm": "matmul",
    "embedding": "gather",
}  # fmt: skip


def read_options(environ: Mapping[str, str] | None = None) -> Options:
    """Reads the variables afresh (the process's when ``environ`` is None). Never raises: see ``Options.warnings``."""
    env = os.environ if environ is None else environ
    warnings = _misspelt_variables(env)
    flags, flag_warnings = parse_flags(env.get(FLAGS, ""), FLAGS)
    dfx, dfx_warnings = parse_flags(env.get(DFX, ""), DFX)
    warnings += [*flag_warnings, *dfx_warnings]
    fields: dict[str, Any] = {
        "enabled": flags.get("enable_autofuse", False) and not switched_off(env),
        "passes": _passes(flags, warnings),
        "recomputation_threshold": flags.get("recomputation_threshold"),
        "max_fusion_size": flags.get("max_fusion_size"),
        "keep_sources": dfx.get("codegen_compile_debug", False),
        "debug_dir": dfx.get("debug_dir", ""),
        "cann_only": _cann_only({**flags, **dfx}, warnings),
        "run_unfused": _switch(env, GF_DEBUG, warnings),
        "disabled_patterns": _patterns(env, warnings),
        "strict": _switch(env, OWN_VARIABLES["strict"], warnings),
        "cache_dir": unquote(env.get(OWN_VARIABLES["cache_dir"], "")),
        "package": unquote(env.get(OWN_VARIABLES["package"], "")),
    }
    for name, choices in (("precision", PRECISIONS), ("planner", PLANNERS), ("route", ROUTES)):
        fields[name] = _choice(env, name, choices, warnings)
    fields["soc"] = _soc(env, warnings)
    fields["max_fusions"] = _count(env, "max_fusions", warnings)
    fields["cache_limit"] = _size(env, "cache_limit", warnings)
    if "enable_autofuse" not in flags and flags.keys() & {"autofuse_enable_pass", "autofuse_disable_pass"}:
        warnings.append(PASSES_WITHOUT_SWITCH)
    if fields["debug_dir"] and not fields["keep_sources"]:
        warnings.append(Reason("AF106", f"{DFX}: --debug_dir has no effect without --codegen_compile_debug=true"))
    path = str(dfx.get("skip_node_names_cfg", ""))
    if path:
        skip = read_skip_list(path)
        fields |= {"skip_list": path, "skip_nodes": skip.nodes, "skip_types": skip.types}
        warnings += skip.warnings
    path = unquote(env.get(OWN_VARIABLES["cost_file"], ""))
    if path:
        given = read_costs(path)
        fields |= {"cost_file": path, "costs": given.entries}
        warnings += given.warnings
    return Options(**fields, warnings=tuple(dict.fromkeys(warnings)))


def write_environ(options: Options) -> dict[str, str]:
    """The variables for ``options``; those at their default are left out."""
    flags: dict[str, Value] = {"enable_autofuse": options.enabled}
    if options.passes:
        flags["autofuse_enable_pass"] = tuple(sorted(options.passes, key=PASSES.index))
    if options.recomputation_threshold is not None:
        flags["recomputation_threshold"] = options.recomputation_threshold
    if options.max_fusion_size is not None:
        flags["max_fusion_size"] = options.max_fusion_size
    dfx: dict[str, Value] = {}
    if options.keep_sources:
        dfx["codegen_compile_debug"] = True
    if options.debug_dir:
        dfx["debug_dir"] = options.debug_dir
    if options.skip_list:
        dfx["skip_node_names_cfg"] = options.skip_list
    for name, value in options.cann_only:
        (flags if name in KEYS and KEYS[name].variable == FLAGS else dfx)[name] = value
    default = Options()
    own = {
        field: str(getattr(options, field))
        for field in OWN_VARIABLES
        if field != "strict" and getattr(options, field) != getattr(default, field)
    }
    variables = {
        FLAGS: _join(flags),
        DFX: _join(dfx),
        GF_DEBUG: "1" if options.run_unfused else "",
        GF_DISABLE: ",".join(sorted(options.disabled_patterns)),
        OWN_VARIABLES["strict"]: "1" if options.strict else "",
        **{OWN_VARIABLES[field]: text for field, text in own.items()},
    }
    return {name: text for name, text in variables.items() if text}


def _join(flags: Mapping[str, Value]) -> str:
    return ";".join(f"--{name}={show(value)}" for name, value in flags.items())


def _passes(flags: Mapping[str, Value], warnings: list[Reason]) -> frozenset[str]:
    """Passes on after vetoes. matmul and conv stay in: ``Options`` warns about them and drops them."""
    on = _pass_names(flags, "autofuse_enable_pass", warnings)
    off = _pass_names(flags, "autofuse_disable_pass", warnings)
    for name in on:
        if name in off:
            warnings.append(Reason("AF105", f"{FLAGS}: pass '{name}' is enabled and disabled; it stays off"))
    expanded_on = {*on, *PASSES} if "all" in on else set(on)
    expanded_off = {*off, *PASSES, *CANN_ONLY_PASSES, "all"} if "all" in off else set(off)
    return frozenset(expanded_on - expanded_off - {"all"})


def _pass_names(flags: Mapping[str, Value], key: str, warnings: list[Reason]) -> tuple[str, ...]:
    words = flags.get(key, ())
    known = ("all", *PASSES, *CANN_ONLY_PASSES)
    names: list[str] = []
    for word in words if isinstance(words, tuple) else ():
        name = word.strip("-\"'").lower()
        if name in known:
            names.append(name)
        elif name in _ALWAYS_ON:
            text = f"{FLAGS}: --{key}: {clip(word)} is no pass; it comes with --enable_autofuse=true"
            warnings.append(Reason("AF104", f"{text} and cannot be switched on or off alone"))
        else:
            meant = _PASS_WORDS.get(name)
            hint = f" (did you mean {meant!r}?)" if meant else suggestion(name, known)
            hint = hint or f" (known: {', '.join((*PASSES, 'all'))})"
            warnings.append(Reason("AF104", f"{FLAGS}: --{key}: unknown pass {clip(word)} is ignored{hint}"))
    return tuple(dict.fromkeys(names))


def _cann_only(flags: Mapping[str, Value], warnings: list[Reason]) -> tuple[tuple[str, str], ...]:
    """Flags only CANN acts on, by name. A value that is CANN's default asks for nothing and is not warned about."""
    found: list[tuple[str, str]] = []
    for name in sorted(flags):
        key = KEYS[name]
        if key.cann_only:
            text = show(flags[name])
            found.append((name, text))
            if text != key.default:
                warnings.append(Reason("AF106", f"{key.variable}: --{name} only acts on CANN's own AutoFuse"))
    return tuple(found)


def switched_off(environ: Mapping[str, str] | None = None) -> bool:
    """Whether GF_AUTOFUSION_DISABLE=1 keeps fusion off; the process's variables when ``environ`` is None."""
    return unquote((os.environ if environ is None else environ).get(GF_DISABLE, "")).lower() in _TRUE


def _patterns(env: Mapping[str, str], warnings: list[Reason]) -> frozenset[str]:
    text = unquote(env.get(GF_DISABLE, ""))
    if text.lower() in _TRUE + _FALSE:
        return frozenset()
    from torchair_autofuse.plan.patterns.library import patterns

    names = [name.lower().replace("_", "-") for name in split_list(text.replace(";", ","))]
    known = patterns()
    for name in names:
        if name not in known:
            hint = suggestion(name, known) or "; `python -m torchair_autofuse patterns` lists them"
            said = f"{GF_DISABLE}: unknown pattern {clip(name)} is ignored{hint}"
            warnings.append(Reason("AF103", said if len(names) > 1 else f"{said}; {GF_DISABLE}=1 turns fusion off"))
    return frozenset(name for name in names if name in known)


def _switch(env: Mapping[str, str], variable: str, warnings: list[Reason]) -> bool:
    text = unquote(env.get(variable, ""))
    if text.lower() not in _TRUE + _FALSE:
        warnings.append(Reason("AF103", f"{variable}={clip(text)} is ignored: expected 1 or 0"))
    return text.lower() in _TRUE


def _choice(env: Mapping[str, str], field: str, choices: tuple[str, ...], warnings: list[Reason]) -> str:
    text = unquote(env.get(OWN_VARIABLES[field], ""))
    if text and text.lower() not in choices:
        expected = f"expected {' or '.join(choices)}{suggestion(text, choices)}"
        warnings.append(Reason("AF103", f"{OWN_VARIABLES[field]}={clip(text)} is ignored: {expected}"))
    return text.lower() if text.lower() in choices else choices[0]


def _count(env: Mapping[str, str], field: str, warnings: list[Reason]) -> int | None:
    text = unquote(env.get(OWN_VARIABLES[field], ""))
    if not text or text.lower() == "none":
        return None
    if re.fullmatch("[0-9]{1,20}", text) and int(text) <= UINT64_MAX:
        return int(text)
    warnings.append(
        Reason("AF103", f"{OWN_VARIABLES[field]}={clip(text)} is ignored: expected an integer of at least 0")
    )
    return None


def _size(env: Mapping[str, str], field: str, warnings: list[Reason]) -> int:
    default: int = getattr(Options(), field)
    text = unquote(env.get(OWN_VARIABLES[field], ""))
    size = parse_size(text) if text else default
    if size is None or size > UINT64_MAX:
        expected = "expected a size such as 500MB, 2GiB or a number of bytes; 0 for no limit"
        warnings.append(Reason("AF103", f"{OWN_VARIABLES[field]}={clip(text)} is ignored: {expected}"))
        return default
    return size


def _soc(env: Mapping[str, str], warnings: list[Reason]) -> str:
    default = Options().soc
    text = unquote(env.get(OWN_VARIABLES["soc"], ""))
    if not text or re.fullmatch(r"\w+", text):
        return text or default
    expected = f"expected a chip name such as {default}"
    warnings.append(Reason("AF103", f"{OWN_VARIABLES['soc']}={clip(text)} is ignored: {expected}"))
    return default


def _misspelt_variables(env: Mapping[str, str]) -> list[Reason]:
    """AF101 for each variable whose name is nearly one of ours. Other names may belong to somebody else."""
    known = (FLAGS, DFX, GF_DEBUG, GF_DISABLE, *OWN_VARIABLES.values())
    warnings: list[Reason] = []
    for name in sorted(env):
        if name in known:
            continue
        for prefix in ("TORCHAIR_AUTOFUSE_", "GF_AUTOFUSION_", "AUTOFUSE_"):
            if name.upper().startswith(prefix):
                rest = {k[len(prefix) :]: k for k in known if k.startswith(prefix)}
                near = difflib.get_close_matches(name.upper()[len(prefix) :], sorted(rest), n=1, cutoff=0.75)
                if near:
                    text = f"environment variable {clip(name)} is not read; did you mean {rest[near[0]]}?"
                    warnings.append(Reason("AF101", text))
                break
    return warnings
