"""The flag grammar, the checks of Options, and the way back to variables."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torchair_autofuse.messages import Reason
from torchair_autofuse.options import PASSES, ROUTES, Options, default_cache_dir, read_options
from torchair_autofuse.options.grammar import OWN_VARIABLES
from torchair_autofuse.options.keys import DFX, FLAGS, KEYS, show
from torchair_autofuse.options.read import _FALSE, _TRUE

ON = "--enable_autofuse=true"


def read(flags: str = "", dfx: str = "", **env: str) -> Options:
    return read_options({FLAGS: flags, DFX: dfx, **env})


def codes(options: Options) -> list[str]:
    return [warning.code for warning in options.warnings]


def test_nothing_set_is_the_default() -> None:
    assert read_options({}) == Options()
    assert not Options().enabled and Options().warnings == ()
    assert read() == Options()


@pytest.mark.parametrize("text", [
    ON,
    "enable_autofuse=true",
    "-enable_autofuse=True",
    "  --Enable_AutoFuse = TRUE ; ",
    ";;--enable_autofuse=true;;",
    '"--enable_autofuse=true"',
    "'--enable_autofuse=true';",
    "--enable_autofuse='true'",
    "\n--enable_autofuse\t=true\n",
    "—enable_autofuse＝true；",
    "--enable_autofuse=false;--enable_autofuse=true",
])  # fmt: skip
def test_tolerant_forms_of_one_flag(text: str) -> None:
    options = read(text)
    assert options.enabled and options.warnings == ()


@pytest.mark.parametrize("text", [
    f"{ON};--autofuse_enable_pass=reduce,concat",
    f"{ON} ; --autofuse_enable_pass = Reduce , concat ,",
    f"{ON} --autofuse_enable_pass=reduce,concat",
    f'"{ON}";"--autofuse_enable_pass=reduce,concat"',
    f'{ON};autofuse_enable_pass="reduce,concat";',
    f"{ON};--autofuse_enable_pass=concat,reduce,concat，reduce",
    f"{ON};--autofuse_enable_pass=gather;--autofuse_enable_pass=reduce,concat",
])  # fmt: skip
def test_tolerant_forms_of_a_list(text: str) -> None:
    options = read(text)
    assert options.enabled and options.passes == {"reduce", "concat"} and options.warnings == ()


# text, what the warning must say, code; the item is without effect unless the fields say otherwise
BAD: list[tuple[str, str, str, dict[str, Any]]] = [
    ("--enable_autofus=true", "'enable_autofuse'", "AF101", {"enabled": False}),
    ("--enable-autofuse=true", "'enable_autofuse'", "AF101", {"enabled": False}),
    (f"{ON};--enable_pass=reduce", "'autofuse_enable_pass'", "AF101", {"passes": frozenset()}),
    (f"{ON};--improve_precision_blacklist=Add", "'autofuse_enhance_precision_blacklist'", "AF101", {"cann_only": ()}),
    (f"{ON};--qqq=1", "unknown key '--qqq'", "AF101", {"enabled": True}),
    (f"{ON};--debug_dir=/x", DFX, "AF101", {"debug_dir": ""}),
    (f"{ON};--debug_dri=/x", f"'debug_dir' in {DFX}", "AF101", {"debug_dir": ""}),
    (f"{ON};--soc=Ascend310P3", "TORCHAIR_AUTOFUSE_SOC", "AF101", {"soc": "Ascend910B1"}),
    ("--enable_autofuse", "write --enable_autofuse=true", "AF102", {"enabled": False}),
    (f"{ON};--max_fusion", "write --key=value (did you mean 'max_fusion_size'?)", "AF102", {"max_fusion_size": None}),
    (f"{ON};=1", "--key=value", "AF102", {"enabled": True}),
    ("--enable_autofuse==true", "more than one '='", "AF102", {"enabled": False}),
    (f"{ON},--max_fusion_size=8", "separated by ';'", "AF102", {"enabled": True, "max_fusion_size": 8}),
    (f"{ON},max_fusion_size=8", "separated by ';'", "AF102", {"enabled": True, "max_fusion_size": 8}),
    (f'{ON};--max_fusion_size="8', "unbalanced quote", "AF102", {"max_fusion_size": 8}),
    ("--enable_autofuse=1", "write true", "AF103", {"enabled": False}),
    ("--enable_autofuse=", "expected true or false", "AF103", {"enabled": False}),
    (f"{ON};--enable_autofuse=maybe", "expected true or false", "AF103", {"enabled": False}),
    (f"{ON};--recomputation_threshold=256", "from 0 to 255", "AF103", {"recomputation_threshold": None}),
    (f"{ON};--recomputation_threshold=-1", "from 0 to 255", "AF103", {"recomputation_threshold": None}),
    (f"{ON};--max_fusion_size=many", "'many'", "AF103", {"max_fusion_size": None}),
    (f"{ON};--max_fusion_size={2**64}", "at least 0", "AF103", {"max_fusion_size": None}),
    (f"{ON};--max_fusion_size=٣", "at least 0", "AF103", {"max_fusion_size": None}),
    (f"{ON};--autofuse_enable_pass=reduc,concat", "'reduce'", "AF104", {"passes": frozenset({"concat"})}),
    (f"{ON};--autofuse_enable_pass=softmax", "'reduce'", "AF104", {"passes": frozenset()}),
    (f"{ON};--autofuse_enable_pass=zzzz", "known: reduce", "AF104", {"passes": frozenset()}),
    (f"{ON};--autofuse_disable_pass=elementwise", "cannot be switched", "AF104", {"passes": frozenset()}),
    (f"{ON};--autofuse_enable_pass=matmul,reduce", "'matmul'", "AF106", {"passes": frozenset({"reduce"})}),
    ("--autofuse_enable_pass=reduce", "without --enable_autofuse=true", "AF106", {"enabled": False}),
    (f"{ON};--autofuse_enable_pgo=true", "--autofuse_enable_pgo", "AF106",
     {"cann_only": (("autofuse_enable_pgo", "true"),)}),
]  # fmt: skip


@pytest.mark.parametrize("text, said, code, fields", BAD, ids=[b[0] for b in BAD])
def test_what_is_wrong_is_said_once(text: str, said: str, code: str, fields: dict[str, Any]) -> None:
    options = read(f"{text};{text}" if "," not in text.split(";")[0] else text)  # a repeated item warns once
    assert codes(options) == [code], options.warnings
    assert said in options.warnings[0].text
    for name, value in fields.items():
        assert getattr(options, name) == value


DFX_BAD: list[tuple[str, str, str]] = [
    ("--enable_autofuse=true", FLAGS, "AF101"),
    ("--codegen_compile_debug=yes", "write true", "AF103"),
    ("--debug_dir=/tmp/x", "without --codegen_compile_debug=true", "AF106"),
    ("--debug_dir=", "a path", "AF103"),
    ("--autofuse_att_algorithm=Fast", "AxesReorder or HighPerf", "AF103"),
    ("--autofuse_att_algorithm=highperf", "only acts on CANN", "AF106"),
    ("--att_ub_threshold=101", "from 0 to 100", "AF103"),
    ("--att_accuracy_level=2", "from 0 to 1", "AF103"),
    ("--autofuse_pgo_step_max=0", "from 1 to 1024", "AF103"),
    ("--force_schedule_result=-2", "from -1 to 100", "AF103"),
    ("--force_tiling_case=g0_3,g1_5_R", "only acts on CANN", "AF106"),
    ("--force_tiling_case=a b", "tiling cases", "AF103"),
    ("--replace_kernel=/a=b", "only acts on CANN", "AF106"),
    ("--skip_node_names_cfg=/no/such/file.ini", "does not exist", "AF107"),
]


@pytest.mark.parametrize("text, said, code", DFX_BAD, ids=[b[0] for b in DFX_BAD])
def test_dfx_flags(text: str, said: str, code: str) -> None:
    options = read(ON, f"{text};{text}")
    assert codes(options) == [code] and said in options.warnings[0].text


def test_a_cann_only_flag_at_its_default_is_not_worth_a_warning() -> None:
    for key in KEYS.values():
        if key.cann_only and key.default:
            text = f"--{key.name}={key.default}"
            options = read(f"{ON};{text}") if key.variable == FLAGS else read(ON, text)
            assert options.warnings == () and options.cann_only == ((key.name, key.default),)


def test_values_of_good_flags() -> None:
    options = read(
        f"{ON};--autofuse_enable_pass=all;--recomputation_threshold=7;--max_fusion_size=0,",
        "--codegen_compile_debug=true;--debug_dir=/tmp/a=b c",
    )
    assert options.passes == set(PASSES) and options.recomputation_threshold == 7 and options.max_fusion_size == 0
    assert options.keep_sources and options.debug_dir == "/tmp/a=b c" and options.warnings == ()


def test_disable_wins() -> None:
    options = read(f"{ON};--autofuse_enable_pass=reduce,concat;--autofuse_disable_pass=reduce")
    assert options.passes == {"concat"} and codes(options) == ["AF105"] and "'reduce'" in options.warnings[0].text
    # "all" but one is a sensible wish, and so is vetoing what is off.
    options = read(f"{ON};--autofuse_enable_pass=all;--autofuse_disable_pass=gather,matmul")
    assert options.passes == set(PASSES) - {"gather"} and options.warnings == ()
    assert read(f"{ON};--autofuse_disable_pass=reduce") == read(ON)
    assert read(f"{ON};--autofuse_enable_pass=reduce;--autofuse_disable_pass=all").passes == frozenset()


def test_a_later_good_value_replaces_a_bad_one() -> None:
    options = read(f"--enable_autofuse=1;{ON}")
    assert options.enabled and options.warnings == ()


OWN: list[tuple[str, str, dict[str, Any], str]] = [
    ("GF_AUTOFUSION_DEBUG", "1", {"run_unfused": True}, ""),
    ("GF_AUTOFUSION_DEBUG", "0", {"run_unfused": False}, ""),
    ("GF_AUTOFUSION_DEBUG", "2", {"run_unfused": False}, "AF103"),
    (
        "GF_AUTOFUSION_DISABLE",
        " Gelu_Residual,layer-norm ,",
        {"disabled_patterns": {"gelu-residual", "layer-norm"}},
        "",
    ),
    ("GF_AUTOFUSION_DISABLE", "swigluu,rope", {"disabled_patterns": {"rope"}}, "AF103"),
    ("GF_AUTOFUSION_DISABLE", "everything", {"disabled_patterns": frozenset()}, "AF103"),
    ("GF_AUTOFUSION_DISABLE", " Off ", {"disabled_patterns": frozenset()}, ""),
    ("TORCHAIR_AUTOFUSE_ROUTE", "jit", {"route": "jit", "run_unfused": False}, ""),
    ("TORCHAIR_AUTOFUSE_ROUTE", "off", {"route": "off", "run_unfused": True}, ""),
    ("TORCHAIR_AUTOFUSE_STRICT", "true", {"strict": True}, ""),
    ("TORCHAIR_AUTOFUSE_STRICT", "tru", {"strict": False}, "AF103"),
    ("TORCHAIR_AUTOFUSE_CACHE_DIR", " '/tmp/c' ", {"cache_dir": "/tmp/c"}, ""),
    ("TORCHAIR_AUTOFUSE_SOC", "Ascend310P3", {"soc": "Ascend310P3"}, ""),
    ("TORCHAIR_AUTOFUSE_SOC", "a/b", {"soc": "Ascend910B1"}, "AF103"),
    ("TORCHAIR_AUTOFUSE_PLANNER", "Greedy", {"planner": "greedy"}, ""),
    ("TORCHAIR_AUTOFUSE_PLANNER", "partition", {"planner": "partition"}, ""),
    ("TORCHAIR_AUTOFUSE_PLANNER", "gredy", {"planner": "greedy"}, "AF103"),
    ("TORCHAIR_AUTOFUSE_PRECISION", "STRICT", {"precision": "strict"}, ""),
    ("TORCHAIR_AUTOFUSE_PRECISION", "fp16", {"precision": "fp32"}, "AF103"),
    ("TORCHAIR_AUTOFUSE_MAX_FUSIONS", "3", {"max_fusions": 3}, ""),
    ("TORCHAIR_AUTOFUSE_MAX_FUSIONS", "-3", {"max_fusions": None}, "AF103"),
    ("TORCHAIR_AUTOFUSE_ROUTE", "jot", {"route": "auto"}, "AF103"),
    ("TORCHAIR_AUTOFUSE_CACHEDIR", "/tmp/c", {"cache_dir": ""}, "AF101"),
    ("AUTOFUSE_FLAG", ON, {"enabled": False}, "AF101"),
    ("AUTOFUSE_FLAGS_OLD", ON, {"enabled": False}, ""),
    ("TORCHAIR_AUTOFUSE_CXX", "g++", {}, ""),
]


@pytest.mark.parametrize("variable, text, fields, code", OWN, ids=[f"{o[0]}={o[1]}" for o in OWN])
def test_own_variables(variable: str, text: str, fields: dict[str, Any], code: str) -> None:
    options = read_options({variable: text})
    assert codes(options) == ([code] if code else [])
    for name, value in fields.items():
        assert getattr(options, name) == value


def test_read_afresh_from_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS, ON)
    assert read_options().enabled
    monkeypatch.setenv(FLAGS, "")
    assert not read_options().enabled


def test_from_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DFX, "--codegen_compile_debug=true")
    assert Options.from_flags(ON).keep_sources and Options.from_flags(ON).enabled
    assert not Options.from_flags(ON, "").keep_sources
    assert Options.from_flags(ON, environ={"TORCHAIR_AUTOFUSE_SOC": "Ascend310P3"}) == Options(
        enabled=True, soc="Ascend310P3"
    )
    with pytest.raises(TypeError, match="flags: expected a string"):
        Options.from_flags(True)  # type: ignore[arg-type]


SKIP = """\ufeff# what stays
[ByNodeName]
Add_1
  model/ln/Mul_2   # a comment

[ bynodetype ]
SoftmaxV2
"""


def test_skip_list(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "skip.ini"
    file.write_text(SKIP, encoding="utf-8")
    options = read(ON, f"--skip_node_names_cfg={file}")
    assert options.skip_nodes == {"Add_1", "model/ln/Mul_2"} and options.skip_types == {"SoftmaxV2"}
    assert options.warnings == () and options.skip_list == str(file)


@pytest.mark.parametrize("content, said, kept", [
    (b"Add_1\nAdd_2\n[ByNodeName]\nAdd_3\n", "line 1: 'Add_1' is in no section", {"Add_3"}),
    (b"[ByNodeNames]\nAdd_1\nAdd_2\n[ByNodeName]\nAdd_3\n", "'[ByNodeNames]' (did you mean 'ByNodeName'?)", {"Add_3"}),
    (b"[ByNodeName]\n\xff\xfe\n", "cannot be read", set()),
])  # fmt: skip
def test_bad_skip_lists(tmp_path: pathlib.Path, content: bytes, said: str, kept: set[str]) -> None:
    file = tmp_path / "skip.ini"
    file.write_bytes(content)
    options = read(ON, f"--skip_node_names_cfg={file}")
    assert codes(options) == ["AF107"] and said in options.warnings[0].text and options.skip_nodes == kept


def test_a_folder_is_no_skip_list(tmp_path: pathlib.Path) -> None:
    options = read(ON, f"--skip_node_names_cfg={tmp_path}")
    assert codes(options) == ["AF107"] and "is not a file" in options.warnings[0].text


@pytest.mark.parametrize("changes, said", [
    ({"enabled": 1}, r"Options\.enabled: expected True or False, got 1"),
    ({"passes": "reduce"}, r"Options\.passes: expected a set of names"),
    ({"passes": {"reduc"}}, r"Options\.passes: expected names of reduce, .*got 'reduc'"),
    ({"recomputation_threshold": 256}, r"recomputation_threshold: expected an integer from 0 to 255 or None, got 256"),
    ({"recomputation_threshold": "1"}, r"recomputation_threshold"),
    ({"max_fusion_size": -1}, r"max_fusion_size: expected an integer of at least 0 or None, got -1"),
    ({"max_fusions": True}, r"max_fusions"),
    ({"precision": "fp16"}, r"precision: expected 'fp32' or 'strict', got 'fp16'"),
    ({"planner": ["greedy"]}, r"planner: expected 'greedy' or 'partition'"),
    ({"route": "npu"}, r"route: expected 'auto'"),
    ({"soc": ""}, r"soc: expected a chip name"),
    ({"cache_dir": None}, r"cache_dir: expected a string"),
    ({"skip_nodes": {1}}, r"skip_nodes: expected a set of names"),
    ({"cann_only": (("a", 1),)}, r"cann_only: expected a tuple of"),
    ({"warnings": ("AF101",)}, r"warnings: expected a tuple of Reason"),
    ({"enable": True}, r"no field 'enable' \(did you mean 'enabled'\?\)"),
])  # fmt: skip
def test_replace_names_the_bad_field(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Options().replace(**changes)


def test_replace() -> None:
    options = read(ON).replace(passes={"all"}, planner="partition", max_fusions=2)
    assert options.passes == set(PASSES) and options.planner == "partition" and options.max_fusions == 2
    assert codes(options) == []
    doubtful = Options(passes=frozenset({"conv"}))
    assert codes(doubtful.replace(max_fusions=3)) == ["AF106"]  # carried, not doubled
    assert codes(Options(passes=frozenset({"conv", "all"}))) == ["AF106"]


@pytest.mark.parametrize(
    "text, on", [("1", False), ("TRUE", False), ("'on'", False), ("0", True), ("", True), ("gelu", True)]
)
def test_the_variable_that_turns_fusion_off(text: str, on: bool) -> None:
    assert read(ON, GF_AUTOFUSION_DISABLE=text).enabled is on


def test_a_caller_that_is_the_switch_itself() -> None:
    options = read("--autofuse_enable_pass=reduce;--qqq=1").switched_on()
    assert options.enabled and options.passes == {"reduce"} and codes(options) == ["AF101"]


def test_warnings_do_not_make_options_differ() -> None:
    assert Options(warnings=(Reason("AF101", "x"),)) == Options()
    assert hash(Options(warnings=(Reason("AF101", "x"),))) == hash(Options())


DIGESTED: dict[str, Any] = {
    "enabled": True, "passes": {"reduce"}, "recomputation_threshold": 2, "max_fusion_size": 0, "precision": "strict",
    "soc": "Ascend310P3", "max_fusions": 1,
    "planner": "partition",
    "costs": (("", "launch_us", (3.0,)),), "run_unfused": True, "disabled_patterns": {"rope"}, "skip_nodes": {"x"},
    "skip_types": {"x"},
}  # fmt: skip
UNDIGESTED: dict[str, Any] = {
    "strict": True, "cache_dir": "/c", "route": "jit", "package": "/p", "debug_dir": "/d",
    "keep_sources": True, "skip_list": "/s", "cost_file": "/c.toml", "cache_limit": 7,
    "cann_only": (("att_ub_threshold", "3"),), "warnings": (Reason("AF101", "x"),),
}  # fmt: skip


def test_digest() -> None:
    assert {f.name for f in dataclasses.fields(Options)} == DIGESTED.keys() | UNDIGESTED.keys()
    seen = {Options().digest()}
    for name, value in DIGESTED.items():
        seen.add(Options().replace(**{name: value}).digest())
    assert len(seen) == len(DIGESTED) + 1
    assert {Options().replace(**{name: value}).digest() for name, value in UNDIGESTED.items()} == {Options().digest()}


def test_digest_and_warnings_do_not_depend_on_hash_order() -> None:
    flags = f"{ON};--autofuse_enable_pass=all,matmul,conv,zzzz;--qqq=1;--a=2;--autofuse_enable_pgo=true"
    script = (
        "from torchair_autofuse.options import Options\n"
        f"o = Options.from_flags({flags!r}, '', {{'GF_AUTOFUSION_DISABLE': 'rope,swiglu,adam,a'}})\n"
        "print(o.digest(), *o.warnings, sep='\\n'); print(o.to_environ())"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(texts) == 1 and "AF106" in texts.pop()


def test_cache_folder() -> None:
    assert "torchair_autofuse" in default_cache_dir()
    assert Options().cache_root() == default_cache_dir() and Options(cache_dir="/c").cache_root() == "/c"
    assert Options(cache_dir="c").cache_root() == str(pathlib.Path.cwd() / "c")
    assert Options(cache_dir="~/c").cache_root() == str(pathlib.Path.home() / "c")


@pytest.mark.parametrize("text, expected", [
    ("500MB", 500_000_000), (" 2 GiB ", 2 << 30), ("1.5k", 1500), ("123", 123), ("0", 0), ('"1TB"', 10**12), ("7B", 7),
    ("", Options().cache_limit), (str(2**64 - 1), 2**64 - 1),
])  # fmt: skip
def test_limit_of_the_cache(text: str, expected: int) -> None:
    options = read_options({OWN_VARIABLES["cache_limit"]: text})
    assert options.cache_limit == expected and options.warnings == ()


@pytest.mark.parametrize("text", ["much", "-1", "5XB", "1e9", "MB", "20000000TB", "1,5GB"])
def test_a_limit_that_is_none(text: str) -> None:
    options = read_options({OWN_VARIABLES["cache_limit"]: text})
    assert options.cache_limit == Options().cache_limit
    assert codes(options) == ["AF103"] and "such as 500MB" in options.warnings[0].text


def test_what_no_variable_can_carry() -> None:
    with pytest.raises(ValueError, match=r"debug_dir$"):
        Options(keep_sources=True, debug_dir="/a;b").to_environ()
    with pytest.raises(ValueError, match=r"skip_nodes$"):
        Options(skip_nodes=frozenset({"Add_1"})).to_environ()
    assert Options().to_environ() == {FLAGS: "--enable_autofuse=false"}


_names = st.frozensets(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda n: n not in _TRUE + _FALSE), max_size=3
)
_paths = st.from_regex(r"/[A-Za-z0-9_.=-]{0,12}", fullmatch=True)
_CANN = [("att_ub_threshold", "3"), ("autofuse_enable_pgo", "true"), ("autofuse_pgo_algo", "pruning")]
_options = st.builds(
    Options,
    enabled=st.booleans(),
    passes=st.frozensets(st.sampled_from(PASSES)),
    recomputation_threshold=st.none() | st.integers(0, 255),
    max_fusion_size=st.none() | st.integers(0, 2**64 - 1),
    precision=st.sampled_from(["fp32", "strict"]),
    soc=st.sampled_from(["Ascend910B1", "Ascend310P3"]),
    max_fusions=st.none() | st.integers(0, 2**64 - 1),
    run_unfused=st.booleans(),
    disabled_patterns=st.frozensets(st.sampled_from(["rope", "swiglu", "rms-norm"])),
    strict=st.booleans(),
    cache_dir=st.just("") | _paths,
    package=st.just("") | _paths,
    cache_limit=st.integers(0, 2**64 - 1),
    route=st.sampled_from(ROUTES),
    debug_dir=st.just("") | _paths,
    keep_sources=st.booleans(),
    cann_only=st.lists(st.sampled_from(_CANN), unique=True).map(lambda pairs: tuple(sorted(pairs))),
)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(_options)
def test_variables_read_back(options: Options) -> None:
    assert read_options(options.to_environ()) == options


_fragments = st.sampled_from([
    "--", "-", "=", ";", ",", " ", '"', "'", "\n", "true", "1", "all", "reduce", "[", "\x00", "\udc80", "٣", "；",
    *(key.name for key in KEYS.values()), *(show(True), "-1", str(2**70)),
])  # fmt: skip
_texts = st.text(max_size=40) | st.lists(_fragments, max_size=25).map("".join)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(_texts, _texts, _texts)
@example("--skip_node_names_cfg=\x00", "--skip_node_names_cfg=\x00", "\x00")
@example("=;=;--=", '--debug_dir=";";"', "--")
def test_any_text_gives_options(flags: str, dfx: str, other: str) -> None:
    own = ("DEBUG", "STRICT", "SOC", "PLANNER", "PRECISION", "MAX_FUSIONS", "ROUTE", "CACHE_DIR")
    env = {FLAGS: flags, DFX: dfx, "GF_AUTOFUSION_DISABLE": other, "GF_AUTOFUSION_DEBUG": other}
    options = read_options(env | {f"TORCHAIR_AUTOFUSE_{name}": other for name in own[1:]})
    assert isinstance(options, Options)
    assert len(set(options.warnings)) == len(options.warnings)
    for warning in options.warnings:
        assert str(warning).encode() and "\x00" not in str(warning)  # printable anywhere


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12))
def test_no_item_is_dropped_in_silence(word: str) -> None:
    """An item is either known and good, or it is warned about."""
    for text in (word, f"--{word}=1", f"--enable_autofuse={word}", f"--autofuse_enable_pass={word}"):
        options = read(f"{ON};{text}")
        known = word.lower() in {"true", "false", "all", *PASSES}
        assert known or options.warnings, text


def test_a_long_text_is_read_in_linear_time() -> None:
    long = 200_000
    for text in (" " * long, "," * long, "--" * long, '"' * long, ";" * long, f"{ON};--qqq={' ' * long}x"):
        read(text)  # would not end in useful time if a pattern backtracked over the whole text


def test_the_key_table_is_sound() -> None:
    for name, key in KEYS.items():
        assert name == key.name and key.variable in (FLAGS, DFX)
        if key.default:
            assert show(key.parse(key.default)) == key.default
