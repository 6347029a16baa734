"""H21, H24, H27, H28, H41, H44, H48, H50, H53, H56: what the files and tools of the installed CANN say."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.deliver.jit.command import gist
from torchair_autofuse.messages import Reason
from torchair_autofuse.probe.record import Finding
from torchair_autofuse.schedule.isa import HIGH_LEVEL
from torchair_autofuse.soc.chip import DEFAULT_SOC, Chip, chip, soc_names

_LIMIT = 60  # seconds of a host compiler


def platform(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """chips.toml against the platform configuration, for the SoC of the device or all that are known to both."""
    folders = [*sorted(cann.home.glob("*-linux/data/platform_config")), cann.home / "data" / "platform_config"]
    files = {f.stem: f for place in folders if place.is_dir() for f in sorted(place.glob("*.ini"))}
    found = []
    for name in [soc] if soc else soc_names():
        known = chip(name)
        if isinstance(known, Chip) and name in files:
            found.append(_compared(known, files[name]))
    return found or [Finding("platform_config", None, f"no {soc or 'known SoC'}.ini in CANN's data/platform_config")]


def _compared(known: Chip, file: Path) -> Finding:
    config = configparser.ConfigParser(strict=False, inline_comment_prefixes=("#", ";"))
    try:
        config.read_string(file.read_text(encoding="utf-8", errors="replace"))
    except configparser.Error as error:
        return Finding(known.soc, None, f"{file.name} is no ini file: {' '.join(str(error).split())}")
    table = {
        ("version", "NpuArch"): known.npu_arch,
        ("SoCInfo", "vector_core_cnt"): known.vector_cores,
        ("AICoreSpec", "ub_size"): known.ub_bytes,
        ("AICoreSpec", "cube_freq"): known.clock_mhz,
    }
    told, wrong = [], []
    for (section, key), ours in table.items():
        text = config.get(section, key, fallback="")
        told.append(f"{key}={text or 'absent'}")
        if text and text.strip() != str(ours):
            wrong.append(f"{key} is {text}, chips.toml has {ours}")
    if all(t.endswith("=absent") for t in told):
        return Finding(known.soc, None, f"{file.name} has none of the keys that were looked for")
    return Finding(known.soc, not wrong, "; ".join(wrong) or ", ".join(told))


_COUNTS = (64, 256, 1024, 4096)


def temporaries(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Sizes of temporary buffers of kernels against the helpers of CANN's host library."""
    program = folder / "sizes.cpp"
    calls = [*(name for name, _ in HIGH_LEVEL.values()), "Fmod", "Power"]
    program.write_text(_program(calls), encoding="utf-8")
    command = _host_compiler(cann, program, "-o", str(folder / "sizes"))
    if command is None:
        return [Finding("helpers", None, "there is no g++")]
    libraries = [f"-L{p}" for p in (cann.home / "lib64",) if p.is_dir()]
    run = _run([*command, *libraries, "-ltiling_api", "-lregister", "-lplatform", "-ldl"], folder)
    if run.returncode != 0:
        return [Finding("helpers", None, f"the program that calls them does not build: {gist(run.stderr)}")]
    run = _run([str(folder / "sizes")], folder)
    if run.returncode != 0:
        return [Finding("helpers", None, f"the program that calls them ends with {run.returncode}: {gist(run.stderr)}")]
    factors = {name: 4 * factor for name, factor in HIGH_LEVEL.values()} | {"Fmod": 4, "Power": 20}
    wrong: dict[str, list[str]] = {name: [] for name in calls}
    for line in run.stdout.splitlines():
        name, count, largest, _ = line.split()
        ours = factors[name] * max(int(count), 256) + 512
        if ours < int(largest):
            wrong[name].append(f"{count} elements take {largest} bytes at full speed, kernels have {ours}")
    return [Finding(n, not w, "; ".join(w) or f"kernels have enough for {_COUNTS} elements") for n, w in wrong.items()]


def _program(calls: Sequence[str]) -> str:
    lines = [
        "#include <cstdint>", "#include <cstdio>", "#include <vector>", '#include "graph/tensor.h"',
        '#include "tiling/tiling_api.h"', "int main()", "{", "    uint32_t most = 0, least = 0;",
        f"    for (const int64_t count : {{{', '.join(map(str, _COUNTS))}}}) {{",
        "        const ge::Shape shape(std::vector<int64_t>{count});",
    ]  # fmt: skip
    for name in calls:
        given = "shape, shape, false" if name == "Power" else "shape"
        lines.append(f"        AscendC::Get{name}MaxMinTmpSize({given}, 4, false, most, least);")
        lines.append(f'        std::printf("{name} %ld %u %u\\n", static_cast<long>(count), most, least);')
    return "\n".join([*lines, "    }", "    return 0;", "}", ""])


HOST_SAMPLES = ("columns and rows", "softmax", "split reduction", "lookup")
"""Ops of the samples whose host code differs in kind: fixed and symbolic sizes, workspace, integers."""


def host_code(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Whether generated op_host.cpp compiles against CANN's headers (checked, not linked)."""
    from torchair_autofuse.probe.samples import sample_ops

    ops = sample_ops(soc)
    return [_compiled(cann, name, ops[name].files, folder, "c++17") for name in HOST_SAMPLES]


def both_standards(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Whether one op_host.cpp is accepted in both language standards that CANN's project uses."""
    from torchair_autofuse.probe.samples import sample_ops

    name, op = next(iter(sample_ops(soc).items()))
    return [_compiled(cann, f"{name}, {s}", op.files, folder, s) for s in ("c++11", "c++17")]


def _compiled(cann: Cann, name: str, files: Mapping[str, str], folder: Path, standard: str) -> Finding:
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    command = _host_compiler(cann, folder / "op_host.cpp", "-fsyntax-only", standard=standard)
    if command is None:
        return Finding(name, None, "there is no g++")
    run = _run(command, folder)
    return Finding(name, run.returncode == 0, "compiles" if run.returncode == 0 else gist(run.stderr))


_CMAKE = (
    "npu_op_package", "npu_op_code_gen", "npu_op_library", "npu_op_kernel_sources", "npu_op_kernel_library",
    "npu_op_package_add",
)  # fmt: skip


def cmake_functions(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Whether CANN's CMake files define the functions that a package project calls."""
    config = next((f for f in sorted(cann.home.rglob("ASCConfig.cmake"))), None)
    if config is None:
        return [Finding("ASC", False, "there is no ASCConfig.cmake: find_package(ASC) finds nothing")]
    defined: set[str] = set()
    for file in cann.home.rglob("*.cmake"):
        defined |= set(_DEFINED.findall(file.read_text(encoding="utf-8", errors="replace")))
    return [Finding(n, n in defined, "defined" if n in defined else "not defined in any .cmake file") for n in _CMAKE]


_DEFINED = re.compile(r"^\s*(?:function|macro)\s*\(\s*(npu_op_\w+)", re.IGNORECASE | re.MULTILINE)


def _host_compiler(cann: Cann, source: Path, *more: str, standard: str = "c++17") -> list[str] | None:
    """A command for host code; GE is built with the old string ABI."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    roots = (cann.home / "include", cann.home / f"{cann.machine}-linux" / "include")
    places = [p for root in roots for p in (root, root / "experiment", root / "external", root / "graph") if p.is_dir()]
    flags = [f"-std={standard}", "-D_GLIBCXX_USE_CXX11_ABI=0", *(f"-I{p}" for p in places)]
    return [compiler, *flags, str(source), *more]


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=_LIMIT, check=False
    )


def device_code(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Whether generated kernels, one per helper at least, compile with CANN's device compiler."""
    from torchair_autofuse.probe.samples import sample_ops

    return _device_code(sample_ops(soc), cann, soc, folder)


def direct_entry(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Whether the entry of one kernel becomes a plain function for the JIT route."""
    from torchair_autofuse.probe.samples import sample_ops

    return _device_code(dict([next(iter(sample_ops(soc).items()))]), cann, soc, folder)


def _device_code(ops: Mapping[str, Any], cann: Cann, soc: str, folder: Path) -> list[Finding]:
    from torchair_autofuse.deliver.jit.device import DeviceKernel, compile_all, device_kernel

    kernels = {name: device_kernel(op.op, soc or DEFAULT_SOC, op.text) for name, op in ops.items()}
    made = {name: k for name, k in kernels.items() if isinstance(k, DeviceKernel)}
    found = [Finding(name, None, str(k)) for name, k in kernels.items() if name not in made]
    for name, result in zip(made, compile_all(list(made.values()), cann, folder)):
        ok = isinstance(result, Path)
        found.append(Finding(name, ok, "compiles" if ok else str(result)))
    return found


def runtime_library(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Whether the runtime library of the JIT route builds and loads."""
    from torchair_autofuse.deliver.jit.runtime import build

    made = build(cann, folder)
    ok = isinstance(made, Path)
    return [Finding("runtime library", ok, "builds and loads" if ok else str(made))]


def soc_name(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Whether the runtime's name of the SoC is one of chips.toml."""
    found = chip(soc)
    return [
        Finding("aclrtGetSocName", soc in soc_names(), f"{soc!r}: {found if isinstance(found, Reason) else 'known'}")
    ]


def plain_load(cann: Cann, soc: str, folder: Path) -> list[Finding]:
    """Whether a device binary loads without options, and its kernel is found by name."""
    from torchair_autofuse.probe import frame
    from torchair_autofuse.probe.acl import Acl
    from torchair_autofuse.probe.compiler import compile_kernel
    from torchair_autofuse.probe.device import Source, Unavailable, known_chip
    from torchair_autofuse.probe.families.copies import in_place_input

    acl = Acl(cann.home)
    acl.open(0)
    source = Source(frame.source_of(in_place_input()), frame.ENTRY)
    binary = compile_kernel(source, cann, known_chip(soc).npu_arch, folder)
    try:
        acl.load(binary, source.entry, None)
    except Unavailable as error:
        return [Finding("binary", False, str(error))]
    return [Finding("binary", True, "loads without options")]
