"""Stands in for bisheng and llvm-objcopy: "device code" is a library for the twin, built of the same files.

    fake_bisheng.py bisheng -c kernel.asc -o kernel.host.o --npu-arch=dav-2201 -O2 -std=c++17 -I<folder>
    fake_bisheng.py llvm-objcopy -O binary --only-section=.aicore_binary kernel.host.o kernel.aicore.o

FAKE_BISHENG_REFUSES names an entry that does not compile, FAKE_BISHENG_LOG a file that tells of every compilation.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

# What bisheng knows and the twin does not, then an entry that unpacks the arguments of the real one.
MAIN = """\
#include "kernel_operator.h"
#define __vector__
#define __mix__(...)
namespace AscendC {{
inline void SetSyncBaseAddr(uint64_t place)
{{
    if (place != 1) tw::fail("sync-base", "the meeting place is not the first argument");
}}
}}
#include "kernel.asc"
extern "C" void twin_enter_{entry}({params}, GM_ADDR workspace, GM_ADDR tiling)
{{
    tw::kernel_type({kind});
    {tiling} data;
    tw::tiling_copy(&data, tiling, sizeof(data), 0, sizeof(data));
    {entry}({first}{args}, static_cast<GM_ADDR>(tw::user_workspace(workspace)), tw::tiling_key(), data);
}}
"""
ENTRY = re.compile(
    r'extern "C" __global__ (__vector__|__mix__\(0, 1\)) void (\w+)\(\n    (uint64_t meeting_place, )?'
    r"(GM_ADDR .*), GM_ADDR workspace, uint64_t key, (\w+) tiling\)\n"
)


def main(argv: list[str]) -> int:
    if argv[0] == "llvm-objcopy":
        assert argv[1:4] == ["-O", "binary", "--only-section=.aicore_binary"], argv
        shutil.copyfile(argv[4], argv[5])
        return 0
    from torchair_autofuse.twin.build import BuildJob, build_job
    from torchair_autofuse.twin.errors import KernelBuildError

    flags = argv[1:]
    assert flags[:4] == ["-c", "kernel.asc", "-o", "kernel.host.o"] and f"-I{Path.cwd()}" in flags, argv
    arch = int(next(f for f in flags if f.startswith("--npu-arch=dav-")).rpartition("-")[2])
    files = {n: Path(n).read_text() for n in ("kernel.asc", "kernel.cpp", "tiling.h")}
    found = ENTRY.search(files["kernel.asc"])
    assert found is not None, files["kernel.asc"]
    qualifier, entry, meets, params, tiling = found.groups()
    assert (qualifier != "__vector__") == bool(meets)
    if os.environ.get("FAKE_BISHENG_REFUSES") == entry:
        print("kernel.cpp:7: error: no such thing", file=sys.stderr)
        return 1
    if "FAKE_BISHENG_LOG" in os.environ:
        with open(os.environ["FAKE_BISHENG_LOG"], "a") as log:
            log.write("kernel.asc\n")
    names = ", ".join(p.split()[-1] for p in params.split(", "))
    kind = "KERNEL_TYPE_MIX_AIV_1_0" if meets else "KERNEL_TYPE_AIV_ONLY"
    first = "1, " if meets else ""
    files["main.cpp"] = MAIN.format(entry=entry, params=params, args=names, tiling=tiling, kind=kind, first=first)
    try:
        built = build_job(BuildJob(files, f"twin_enter_{entry}", arch, "main.cpp"))
    except KernelBuildError as error:
        print(error, file=sys.stderr)
        return 1
    shutil.copyfile(built, "kernel.host.o")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
