"""The installed CANN: where it is, its version, its compilers. Read from files; nothing of it is imported or run."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchair_autofuse.messages import Reason

HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")  # both are set by CANN's set_env.sh
DEFAULT_HOMES = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest")
_VERSION_FILES = ("compiler/version.info", "version.info", "runtime/version.info")
_VERSION = re.compile(r"^\s*(?:Version|version)\s*=\s*\W?(\d+)\.(\d+)(?:\.(\d+))?", re.MULTILINE)


@dataclass(frozen=True)
class Cann:
    """``home``: what ASCEND_HOME_PATH names; ``version``: (major, minor, patch); ``text``: the version as it is
    written, such as "9.2.0-beta.1"; ``machine``: "aarch64" or "x86_64"."""

    home: Path
    version: tuple[int, int, int]
    text: str
    machine: str

    @property
    def set_env(self) -> Path:
        """The script that sets CANN's variables."""
        return self.home / "set_env.sh"

    def tool(self, name: str) -> Path | None:
        """A program such as ``bisheng``: the first in CANN's folders for programs, else the one on the path."""
        folders = (
            "bin",
            "compiler/ccec_compiler/bin",
            f"{self.machine}-linux/ccec_compiler/bin",
            "tools/bisheng_compiler/bin",
        )
        own = (self.home / f / name for f in folders)
        found = next((p for p in own if os.access(p, os.X_OK)), None) or shutil.which(name)
        return None if found is None else Path(found)


def find_cann(environ: Mapping[str, str] | None = None) -> Cann | Reason:
    """The CANN of the environment (the process's when None), else of the usual folders; AF505 when there is none or its
    version cannot be read."""
    env = os.environ if environ is None else environ
    named = [env[v] for v in HOME_VARIABLES if env.get(v)]
    for home in map(Path, named or DEFAULT_HOMES):
        try:
            if not home.is_dir():
                continue
            for file in (home / f for f in _VERSION_FILES):
                if file.is_file():
                    return _read(home, file)
        except OSError as error:
            return Reason("AF505", f"the version of CANN in {home} cannot be read: {error.strerror}")
        return Reason("AF505", f"the version of CANN in {home} is unknown: it has no {_VERSION_FILES[0]}")
    if named:
        return Reason("AF505", f"{HOME_VARIABLES[0]} names {named[0]}, which is not a folder; source CANN's set_env.sh")
    return Reason("AF505", "no CANN is installed here: neither ASCEND_HOME_PATH nor a usual folder names one")


def _read(home: Path, file: Path) -> Cann | Reason:
    text = file.read_text(encoding="utf-8", errors="replace")
    found = _VERSION.search(text)
    if found is None:
        return Reason("AF505", f"the version of CANN in {home} is unknown: {file} has no line Version=")
    major, minor, patch = (int(g or 0) for g in found.groups())
    line = text[found.start() : text.find("\n", found.end()) if "\n" in text[found.end() :] else len(text)]
    return Cann(home, (major, minor, patch), line.split("=", 1)[1].strip().strip("[]\"'"), platform.machine())
