"""Every command: what the system refuses is said in one line, without a traceback."""

import os
import subprocess
import sys

import pytest

from torchair_autofuse.cli import main

LONG = "x" * 300


@pytest.mark.parametrize(
    "args", [["run", LONG], ["explain", f"{LONG}.py"], ["explain", LONG], ["inspect", LONG], ["diff", LONG, LONG],
             ["build", "--soc", "ascend910b", "--out", "o", "--defs", LONG]],
)  # fmt: skip
def test_paths_that_are_too_long(args, capsys):
    """What the system refuses to look at is said in one line, by every command."""
    assert main(args) == 2
    assert "File name too long" in capsys.readouterr().err


@pytest.mark.parametrize("output", [">/dev/full", ">&-", "| head -c 1 >/dev/null"])
def test_output_that_goes_nowhere(output, tmp_path):
    file = tmp_path / "a.afop.textproto"
    file.write_text("op_type: 'é'\n", encoding="utf-8")
    command = f"'{sys.executable}' -m torchair_autofuse inspect '{file}' --textproto {output}"
    done = subprocess.run(["sh", "-c", command], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr
    assert (b"No space left" in done.stderr) == ("full" in output)


@pytest.mark.parametrize("jobs", ["-3", "x", "1.5"])
def test_a_number_of_compilers(jobs, capsys):
    with pytest.raises(SystemExit) as error:
        main(["build", "--soc", "ascend910b", "--out", "o", f"--jobs={jobs}"])
    assert error.value.code == 2 and "expected a number of compilers" in capsys.readouterr().err
