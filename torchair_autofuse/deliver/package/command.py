"""``build``: the package for CANN from recorded definitions."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from torchair_autofuse.deliver.cann import Cann, find_cann
from torchair_autofuse.deliver.package.build import BuildError, build_package, write_project
from torchair_autofuse.deliver.package.names import targets
from torchair_autofuse.deliver.package.recorded import read_recorded
from torchair_autofuse.deliver.route import PACKAGE_SINCE
from torchair_autofuse.messages import Reason
from torchair_autofuse.opdef.errors import OpDefError
from torchair_autofuse.options import read_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``build``."""
    parser.add_argument(
        "--soc", action="append", required=True, metavar="S",
        help="chip or series, such as ascend910b or Ascend910B3; may be given several times",
    )  # fmt: skip
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for project, build and package")
    parser.add_argument(
        "--defs", type=Path, metavar="PATH",
        help="definitions: the ops folder of a cache, a folder of *.afop.pb, one file or library "
        "(default: the cache's)",
    )  # fmt: skip
    parser.add_argument(
        "--without", action="append", default=[], metavar="OP_TYPE", help="leave an op out; may be given several times"
    )
    parser.add_argument(
        "--jobs", type=_jobs, default=0, metavar="N", help="compile so many files at once (default: all cores)"
    )
    parser.add_argument("--project-only", action="store_true", help="write the project, build nothing")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 when nothing is built because there is no CANN"
    )


def _jobs(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of compilers, 0 for all cores")
    return int(text)


def main(options: argparse.Namespace) -> int:
    """0: built, or written where nothing can be built; 1: failed; 2: bad arguments."""
    chosen = targets(options.soc)
    if isinstance(chosen, Reason):
        return _fail(chosen, 2)
    source = options.defs or Path(read_options().cache_root()) / "ops"
    try:
        recorded = read_recorded(source)
    except FileNotFoundError as error:
        return _fail(f"{error}. {_RECORD}", 2 if options.defs else 1)
    except OSError as error:
        return _fail(f"{source} cannot be read ({error.strerror})", 2)
    for problem in recorded.problems:
        _fail(f"definition not valid: {problem}", 1)
    if recorded.problems:
        return _fail("nothing was written: delete the files named above, or point --defs elsewhere", 1)
    known = {str(op.op_type) for op in recorded.ops}
    for name in options.without:
        if name not in known:
            return _fail(f"--without {name}: there is no such definition in {source}", 2)
    ops = [op for op in recorded.ops if op.op_type not in options.without]
    if not ops:
        return _fail(f"{source} holds no definition{' but those left out' if options.without else ''}. {_RECORD}", 1)
    cann = _usable_cann()
    try:
        if options.project_only or isinstance(cann, Reason):
            project = write_project(ops, chosen, options.out)
            print(f"{project}: {len(ops)} ops for {', '.join(chosen.units)}")
            return 0 if options.project_only else _not_built(options, project, cann)
        print(f"building {len(ops)} ops for {', '.join(chosen.units)} with CANN {cann.text}", flush=True)
        print(f"the compilers' log: {Path(os.path.abspath(options.out)) / 'build.log'}", flush=True)
        built = build_package(ops, chosen, options.out, cann, jobs=options.jobs)
    except (OpDefError, BuildError) as error:
        return _fail(error, 1)
    state = "built" if built.fresh else "is up to date"
    print(f"{built.package}: {len(built.ops)} ops, {state}")
    out = shlex.quote(os.path.abspath(options.out))
    print(f"Use it: export TORCHAIR_AUTOFUSE_PACKAGE={out}, then start the script anew.")
    return 0


_RECORD = "Run the model once with fusion on, which records what it would fuse; then run this again"


def _usable_cann() -> Cann | Reason:
    found = find_cann()
    if isinstance(found, Reason):
        return found
    if found.version < PACKAGE_SINCE:
        wanted = ".".join(map(str, PACKAGE_SINCE[:2]))
        return Reason("AF505", f"packages need CANN {wanted} or later, {found.home} has {found.text}")
    if not found.set_env.is_file():
        return Reason("AF505", f"{found.set_env} is missing, which sets the variables of CANN's tools")
    return found


def _not_built(options: argparse.Namespace, project: Path, cann: Cann | Reason) -> int:
    print(f"Not built: {cann}.")
    print(f"On a machine with CANN: copy {project} there, source CANN's set_env.sh, and")
    print("    bash build.sh build && mkdir -p OUT && cp -a build/install/packages/vendors OUT/")
    print("    export TORCHAIR_AUTOFUSE_PACKAGE=$PWD/OUT")
    print("or install torchair_autofuse there and run this command again.")
    return 1 if options.strict else 0


def _fail(problem: object, status: int) -> int:
    print(f"torchair_autofuse build: {problem}", file=sys.stderr)
    return status
