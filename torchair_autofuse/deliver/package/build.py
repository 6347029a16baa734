"""Writes the project of a package, builds it with CANN's tools and puts it in its place in one step."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import join, quote
from typing import Any

from torchair_autofuse.cache.locks import acquire, release
from torchair_autofuse.cache.sweep import package_lock
from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.deliver.package.installed import Installed, read_installed
from torchair_autofuse.deliver.package.names import (
    DEFINITIONS,
    INSTALL,
    MANIFEST,
    VENDOR,
    Targets,
    entry_name,
    package_folder,
)
from torchair_autofuse.deliver.package.project import project
from torchair_autofuse.deliver.package.seal import seal
from torchair_autofuse.messages import Reason

_MODE = 0o755  # whatever the umask: what is in it is going to be loaded
_SAFE = re.compile(r"[A-Za-z0-9_./+@%=-]+")  # paths that survive the unquoted places of CANN's CMake functions
_FAILED = re.compile(r"error|failed|fatal", re.IGNORECASE)


@dataclass(frozen=True)
class Built:
    """``package``: what goes into ASCEND_CUSTOM_OPP_PATH; ``fresh``: False when it was there already, as it is to
    be."""

    package: Path
    ops: tuple[str, ...]
    fresh: bool


class BuildError(RuntimeError):
    """A package that could not be written or built; ``reason`` says what, ``ops`` are the op types that failed as far
    as the log names them. An older package is as it was."""

    def __init__(self, reason: Reason, ops: Sequence[str] = ()) -> None:
        super().__init__(str(reason))
        self.reason, self.ops = reason, tuple(ops)


def write_project(ops: Sequence[Any], targets: Targets, out: Path) -> Path:
    """Writes ``<out>/project`` and returns it; files that are as they should be are not touched.

    Raises OpDefError naming a definition that cannot be used, before anything is written; BuildError when ``out``
    cannot be written to.
    """
    files = project(ops, targets)
    out = _made(out)
    with _locked(out), _refusing(out):
        return _write_project(out, files)


def build_package(
    ops: Sequence[Any],
    targets: Targets,
    out: Path,
    cann: Cann,
    *,
    jobs: int = 0,
    environ: Mapping[str, str] | None = None,
) -> Built:
    """Builds ``<out>/vendors/torchair_autofuse``; the log is ``<out>/build.log``. ``jobs``: 0 for all cores.

    A package that is there is replaced only by a complete one that keeps the rules (installed.py), and left alone if
    it is of the same project and CANN. One build at a time per ``out``. Raises OpDefError as ``write_project`` does,
    BuildError for everything else.
    """
    files = project(ops, targets)
    out = _made(out)
    if ":" in str(out):
        text = f"{out}: a ':' separates folders in ASCEND_CUSTOM_OPP_PATH; name an --out without one"
        raise BuildError(Reason("AF502", text))
    names = tuple(sorted(str(op.op_type) for op in ops))
    with _locked(out) as lock, _refusing(out):
        source = _write_project(out, files)
        package = package_folder(out)
        if _is_current(package, files, cann):
            return Built(package, names, fresh=False)
        with _work_folder(out, source) as (where, build):
            _prepare(build, where, cann)
            log = out / "build.log"
            status = _run(where, build, log, cann, _environment(environ, jobs), lock)
            if status != 0:
                raise _failure(log, where, build, names, cann, status)
            _install(build / INSTALL / "packages" / "vendors" / VENDOR, out, cann)
        return Built(package, names, fresh=True)


def _made(out: Path) -> Path:
    out = Path(os.path.abspath(out))
    try:
        if not out.is_dir():
            out.mkdir(mode=_MODE, parents=True)
            out.chmod(_MODE)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        text = f"{out} cannot be written to ({error.strerror}); name another --out"
        raise BuildError(Reason("AF502", text)) from error
    return out


@contextmanager
def _locked(out: Path) -> Iterator[int | None]:
    """One build at a time; yields the lock's file descriptor, None on a file system that has no locks."""
    fd = acquire(package_lock(out), wait=False)
    if fd is None and package_lock(out).is_file():
        print(f"another build is at work in {out}: waiting for it", file=sys.stderr, flush=True)
        fd = acquire(package_lock(out))
    try:
        out.mkdir(mode=_MODE, parents=True, exist_ok=True)  # the other may have been one that cleared the cache
        yield fd
    finally:
        if fd is not None:
            release(fd)


@contextmanager
def _refusing(out: Path) -> Iterator[None]:
    """What cannot be written, for whatever cause, is a BuildError here."""
    try:
        yield
    except OSError as error:
        text = f"{error.filename or out}: cannot be written ({error.strerror or error})"
        raise BuildError(Reason("AF502", text)) from error


def _write_project(out: Path, files: Mapping[str, bytes]) -> Path:
    folder = out / "project"
    if not _is_ours(folder, MANIFEST, f'"vendor": "{VENDOR}"'):
        raise BuildError(_not_ours(folder))
    for path in (MANIFEST, *files):  # the manifest first: it says whose folder this is
        _write(folder / path, files[path])
    for old in sorted(folder.rglob("*"), reverse=True):
        if old.is_symlink() or not old.is_dir():
            if old.relative_to(folder).as_posix() not in files:
                old.unlink()
        elif not any(old.iterdir()):
            old.rmdir()
    return folder


def _is_ours(folder: Path, name: str, line: str = "") -> bool:
    """Whether files in a folder may be deleted: there is nothing in it yet, or its file ``name`` is one of ours."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return not folder.exists() or folder.is_dir()
    file = folder / name
    if file.is_file() and file.stat().st_size == 0 and len(list(folder.iterdir())) == 1:
        return True  # the disk was full, or the build was killed
    return file.is_file() and line in file.read_text(encoding="utf-8", errors="replace")


def _not_ours(folder: Path) -> Reason:
    text = f"{folder} was not made by this command, which deletes what is in it; name another --out"
    return Reason("AF502", text)


def _write(file: Path, data: bytes) -> None:
    if file.is_file() and file.read_bytes() == data:
        return  # its time stays, and make does not compile it again
    file.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    file.write_bytes(data)


def _is_current(package: Path, files: Mapping[str, bytes], cann: Cann) -> bool:
    if not package.is_dir():
        return False
    found = read_installed(package, cann.machine)
    if not isinstance(found, Installed) or found.cann_text != cann.text:
        return False
    return (package / DEFINITIONS / MANIFEST).read_bytes() == files[MANIFEST]


@contextmanager
def _work_folder(out: Path, source: Path) -> Iterator[tuple[Path, Path]]:
    """The project and the build folder: in ``out``, where a later build goes on from it, or copied to a temporary
    folder when CANN's CMake functions cannot take the path, such as one with a space."""
    if _SAFE.fullmatch(str(out)):
        yield source, out / "build"
        return
    temporary = tempfile.gettempdir() if _SAFE.fullmatch(tempfile.gettempdir()) else "/tmp"
    with tempfile.TemporaryDirectory(prefix="autofuse-package-", dir=temporary) as work:
        shutil.copytree(source, Path(work) / "project")
        yield Path(work) / "project", Path(work) / "build"


def _prepare(build: Path, source: Path, cann: Cann) -> None:
    """A build folder of another CANN, or of a project that was elsewhere, is begun anew."""
    stamp = f"{source}\n{cann.home}\n{cann.text}\n"
    file = build / ".made-with"
    if not _is_ours(build, file.name):
        raise BuildError(_not_ours(build))
    if build.exists() and (not file.is_file() or file.read_text(encoding="utf-8") != stamp):
        shutil.rmtree(build)
    build.mkdir(exist_ok=True)
    file.write_text(stamp, encoding="utf-8")


def _environment(environ: Mapping[str, str] | None, jobs: int) -> dict[str, str]:
    env = dict(os.environ if environ is None else environ)
    for name in ("ASCEND_CUSTOM_OPP_PATH", "MAKEFLAGS", "CMAKE_GENERATOR", "DESTDIR"):  # not of this build
        env.pop(name, None)
    return {**env, "JOBS": str(jobs or os.cpu_count() or 1)}


def _run(source: Path, build: Path, log: Path, cann: Cann, env: Mapping[str, str], lock: int | None) -> int:
    """Runs build.sh with CANN's variables and returns its exit status.

    The compilers have ``lock`` too: if this process is killed, the next build waits until they have ended.
    """
    # set_env.sh may read variables that are not set, so "set -u" comes later, in build.sh.
    command = ["bash", "-c", 'source "$0" && exec bash "$@"', str(cann.set_env), str(source / "build.sh"), str(build)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=source, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True, pass_fds=() if lock is None else (lock,),
        )  # fmt: skip
        try:
            return process.wait()
        except BaseException:  # interrupted: make and its compilers too
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise


def _failure(log: Path, source: Path, build: Path, ops: Sequence[str], cann: Cann, status: int) -> BuildError:
    text = log.read_text(encoding="utf-8", errors="replace")
    failed = failed_ops(text, ops)
    lines = [line.strip() for line in text.splitlines() if _FAILED.search(line)]
    first = f": {lines[0][:300]}" if lines else ""
    what = ", ".join(failed) if failed else "the package"
    again = f"source {quote(str(cann.set_env))} && {join(['bash', str(source / 'build.sh'), str(build)])}"
    advice = f"; --without {failed[0]} builds the others" if failed and len(ops) > len(failed) else ""
    said = f"{what} did not build (exit status {status}){first}. The log is {log}, the command was: {again}{advice}"
    return BuildError(Reason("AF503", said), failed)


def failed_ops(log: str, ops: Sequence[str]) -> tuple[str, ...]:
    """The op types that lines with an error name, by type or by the name of their files, in order of appearance."""
    names = {name: op for op in ops for name in (op, entry_name(op))}
    found: dict[str, None] = {}
    if names:
        word = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(map(re.escape, names))})(?![A-Za-z0-9])")
        for line in log.splitlines():
            if _FAILED.search(line):
                found |= dict.fromkeys(names[name] for name in word.findall(line))
    return tuple(found)


def _install(made: Path, out: Path, cann: Cann) -> None:
    """Puts a package into its place if it keeps the rules.

    It may be moved: CANN's own installer copies the same files to any folder, and links inside it are relative.
    """
    if not made.is_dir():
        text = f"{made}: the build ended well but made no such folder; the log is {out / 'build.log'}"
        raise BuildError(Reason("AF502", text))
    package = package_folder(out)
    package.parent.mkdir(mode=_MODE, exist_ok=True)
    package.parent.chmod(_MODE)
    for left in out.glob(".new-*"):  # of a build that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=out) as work:
        Path(work).chmod(_MODE)
        fresh = package_folder(Path(work))
        shutil.copytree(made, fresh, symlinks=True)
        _close(fresh)
        seal(fresh)
        found = read_installed(fresh, cann.machine)
        if not isinstance(found, Installed):
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise BuildError(Reason(found[0].code, f"{found[0].text}{more}; the log is {out / 'build.log'}"))
        _replace(package, fresh, Path(work) / "old")


def _close(folder: Path) -> None:
    """Folders that this user can replace and nobody else can write to."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o7777 & ~0o022
            path.chmod(mode | (0o700 if path.is_dir() else 0o400))


def _replace(package: Path, fresh: Path, old: Path) -> None:
    if os.path.lexists(package):
        os.replace(package, old)
    try:
        os.replace(fresh, package)
    except OSError:
        if os.path.lexists(old):
            os.replace(old, package)
        raise
