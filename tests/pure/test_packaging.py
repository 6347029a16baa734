"""What a wheel holds beside Python modules: templates, schema, the report's page, chip facts and the twin's sources."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "op_templates": "torchair_autofuse/_resources/op_templates",
    "proto": "torchair_autofuse/_resources/proto",
    "torchair_autofuse/report": "torchair_autofuse/report",
    "torchair_autofuse/soc": "torchair_autofuse/soc",
    "torchair_autofuse/plan/patterns": "torchair_autofuse/plan/patterns",
    "torchair_autofuse/twin": "torchair_autofuse/twin",
}


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    target = tmp_path_factory.mktemp("lib")
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return target


@pytest.mark.parametrize("source", FOLDERS)
def test_all_data_files_are_inside(built, source):
    expected = files(ROOT / source)
    assert expected
    assert files(built / FOLDERS[source]) == expected


def test_installed_package_finds_its_own_resources(built, tmp_path):
    code = (
        "from torchair_autofuse.codegen.templates import render, resource\n"
        "from torchair_autofuse.opdef.schema import message_class\n"
        "print(resource('op_templates'), resource('proto'), message_class()().DESCRIPTOR.full_name)\n"
        "assert 'CeilDiv' in render('tiling_math.h.j2')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(built)!r})\n{code}"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    inside = built / "torchair_autofuse" / "_resources"
    assert run.stdout.split() == [str(inside / "op_templates"), str(inside / "proto"), "torchair_autofuse.FusedOpDef"]
