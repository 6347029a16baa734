"""README.md and docs/ against the code: links, paths, names, commands and flags that they mention exist."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torchair_autofuse.messages import CODES
from torchair_autofuse.options import PASSES
from torchair_autofuse.options.grammar import OWN_VARIABLES
from torchair_autofuse.options.keys import KEYS
from torchair_autofuse.progress import QUIET
from torchair_autofuse.report import FusedOp, FusionReport

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "user-guide.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
HAND_WRITTEN = [p for p in PAGES if p.parent.name != "codes"]
TOP_FOLDERS = ("torchair_autofuse", "op_templates", "proto", "samples", "benchmarks", "tests", "docs")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What a link may point at in a page: its headings, as the usual renderers number them, and explicit ids."""
    text = without_code(text_of(page))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return made | set(re.findall(r'<a id="([\w-]+)">', text))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name(page)}: {target} leads nowhere"
        if anchor:
            assert anchor in anchors(file), f"{name(page)}: {target}: no such heading"


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=name)
def test_paths_exist(page: Path) -> None:
    """Every `path/in/backquotes` that looks like a file or folder of ours is one, from the root or the package."""
    for span in re.findall(r"`([^`\n]+)`", without_code(text_of(page))):
        if re.fullmatch(r"[\w.\-]+/(?:[\w.\-/]*)", span):
            places = [ROOT / span, ROOT / "torchair_autofuse" / span]
            if span.split("/")[0] in ("ops", "twin") and page in (README, GUIDE):
                continue  # folders of the cache
            assert any(p.exists() for p in places), f"{name(page)}: no file or folder {span}"


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=name)
def test_scripts_exist(page: Path) -> None:
    """Scripts in commands too."""
    for script in re.findall(r"\b(?:samples|benchmarks|tests)/[\w/]+\.py\b", text_of(page)):
        assert (ROOT / script).is_file(), f"{name(page)}: no {script}"


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=name)
def test_dotted_names_exist(page: Path) -> None:
    """`schedule.ub.UbPlan` and the like, written without the package's name."""
    folders = {p.name for p in (ROOT / "torchair_autofuse").iterdir() if p.is_dir()} | {"pipeline", "plugin"}
    for span in re.findall(r"`([a-z_]+(?:\.\w+)+)(?:\([^`]*\))?`", without_code(text_of(page))):
        if span.split(".")[0] in folders and not re.search(r"\.(py|h|cpp|toml|proto|md|txt)$", span):
            assert exists(["torchair_autofuse", *span.split(".")]), f"{name(page)}: no {span}"


def test_readme_names_every_folder() -> None:
    shown = set(re.findall(r"^\| `(\w+)/` \|", text_of(README), re.MULTILINE))
    assert shown == set(TOP_FOLDERS)


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=name)
def test_names_of_the_package_exist(page: Path) -> None:
    """Every torchair_autofuse.x.y in the text is a module or an attribute."""
    for dotted in sorted(set(re.findall(r"(?<![\w/.-])torchair_autofuse((?:\.[A-Za-z_]\w*)+)", text_of(page)))):
        assert exists(["torchair_autofuse", *dotted[1:].split(".")]), f"{name(page)}: no torchair_autofuse{dotted}"


def exists(parts: list[str]) -> bool:
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            if attribute in getattr(found, "__dataclass_fields__", {}):
                return True  # a field without a default is no attribute of the class
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=name)
def test_python_blocks_compile(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL):
        if "-> None\n" in block or block.lstrip().startswith("python "):
            continue  # a list of signatures
        compile(block, name(page), "exec")


def test_signatures_of_the_guide() -> None:
    import inspect

    import torchair_autofuse

    listed = re.findall(r"^(\w+)\((.*)\) -> ", text_of(GUIDE), re.MULTILINE)
    assert {n for n, _ in listed} | {"AutofuseWarning"} == set(torchair_autofuse.__all__)
    for function, arguments in listed:
        parameters = inspect.signature(getattr(torchair_autofuse, function)).parameters
        names = [a.split("=")[0].strip().lstrip("*") for a in arguments.split(",") if a.strip() not in ("", "*")]
        assert names == list(parameters), function


def test_commands_exist() -> None:
    environ = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "torchair_autofuse", "--help"], capture_output=True, text=True, env=environ, cwd=ROOT
    )
    known = set(re.findall(r"^    (\w+) ", done.stdout, re.MULTILINE))
    assert {"run", "explain"} <= known, done.stdout + done.stderr
    shown = set(re.findall(r"^\| `(\w+)[ `]", text_of(README).split("## Command line")[1].split("##")[0], re.MULTILINE))
    assert shown == known
    for page in HAND_WRITTEN:
        used = set(re.findall(r"-m torchair_autofuse (\w+)", text_of(page))) - {"COMMAND"}
        assert used <= known, f"{name(page)}: {used - known}"


@pytest.mark.parametrize("variable", ["AUTOFUSE_FLAGS", "AUTOFUSE_DFX_FLAGS"])
def test_flags_table(variable: str) -> None:
    section = text_of(GUIDE).split(f"### {variable}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? ?\| ?(.*?) \| (.*) \|$", section, re.MULTILINE)
    keys = [key for key in KEYS.values() if key.variable == variable]
    assert [(flag, default) for flag, default, _, _ in rows] == [(key.name, key.default) for key in keys]
    for flag, _, _, effect in rows:
        assert (effect == "AF106") == KEYS[flag].cann_only, flag


def test_variables_table() -> None:
    section = text_of(GUIDE).split("## Environment variables\n")[1].split("\n## ")[0]
    shown = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    others = {"TORCHAIR_AUTOFUSE_HOST", QUIET, "GF_AUTOFUSION_DEBUG", "GF_AUTOFUSION_DISABLE", "CXX"}
    assert shown == {*OWN_VARIABLES.values(), *others}


def test_passes_are_told() -> None:
    for word in (*PASSES, "all"):
        assert f"`{word}`" in text_of(GUIDE)


def test_report_fields_are_told() -> None:
    section = text_of(GUIDE).split("## The report\n")[1].split("\n## ")[0]
    for field in (*FusionReport.__dataclass_fields__, *FusedOp.__dataclass_fields__):
        assert f"`{field}`" in section, field


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=name)
def test_codes_exist(page: Path) -> None:
    assert set(re.findall(r"\bAF\d{3}\b", text_of(page))) <= CODES.keys()


def test_assumptions_are_numbered() -> None:
    text = text_of(ROOT / "docs" / "hardware-assumptions.md")
    numbers = [int(n) for n in re.findall(r"\*\*H(\d+)\b", text)]
    assert numbers == list(range(1, len(numbers) + 1))
