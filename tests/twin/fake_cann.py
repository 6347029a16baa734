"""A folder that looks like CANN and an NPU: its compiler makes kernels for the twin, its libascendcl runs them."""
# ruff: noqa: E501  (C++ stays on one line)

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_BISHENG = """#!{python}
import re
import sys
from pathlib import Path

from torchair_autofuse.twin.build import build

if Path("kernel.cpp").exists():  # a generated kernel of the JIT route
    sys.path.insert(0, {here!r})
    import fake_bisheng

    sys.exit(fake_bisheng.main(["bisheng", *sys.argv[1:]]))
text = Path("kernel.asc").read_text()
arch = next(int(a.rsplit("-", 1)[1]) for a in sys.argv if a.startswith("--npu-arch=dav-"))
assert sys.argv[1:4] == ["-c", "kernel.asc", "-o"], sys.argv
made = build(text, re.findall(r"AFPROBE_CORES void (\\w+)", text)[0], npu_arch=arch)
Path(sys.argv[4]).write_text(str(made))
"""
_OBJCOPY = """#!{python}
import shutil
import sys

assert sys.argv[1:4] == ["-O", "binary", "--only-section=.aicore_binary"], sys.argv
shutil.copyfile(sys.argv[4], sys.argv[5])
"""
# Environment: FAKE_ACL_SOC, FAKE_ACL_COUNT, FAKE_ACL_STATUS (of the wait after a launch), FAKE_ACL_CRASH,
# FAKE_ACL_MAGIC (a binary loads with this option only).
_ACL = r"""
#include <dlfcn.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

struct Info { uint32_t abi, arch, params; void (*call)(void**); const char* name; const uint32_t* marks; };
struct Arg { uint64_t address, bytes; int32_t kind, reserved; uint64_t read, written, unwritten; };
struct Outcome { int32_t status, nframes; int64_t block; char rule[32], message[1024]; uint64_t frames[32], counters[20]; };
using Launch = int (*)(const Info*, Arg*, uint32_t, const void*, uint64_t, uint64_t, int64_t, uint64_t, int64_t, uint32_t, Outcome*);
struct Binary { const Info* info; Launch launch; };
struct Value { uint32_t word[4]; };
struct Attribute { int id; Value value; };
struct Config { Attribute* attrs; size_t count; };
struct Option { int type; Value value; };
struct Options { Option* options; size_t count; };

static std::map<uint64_t, size_t> g_memory;
static std::string g_error;
static int g_status = 0;
static int g_place = 0;
constexpr uint64_t kSystem = 16 << 20;

static int Fail(int status, const std::string& why) { g_error = why; return status; }

extern "C" {
int aclInit(const char*) { return 0; }
int aclrtGetDeviceCount(uint32_t* count) { const char* n = getenv("FAKE_ACL_COUNT"); *count = n ? atoi(n) : 1; return 0; }
int aclrtSetDevice(int32_t) { return 0; }
int aclrtCreateStream(void** stream) { *stream = &g_place; return 0; }
const char* aclrtGetSocName() { const char* n = getenv("FAKE_ACL_SOC"); return n ? n : "Ascend910B3"; }
const char* aclGetRecentErrMsg() { return g_error.c_str(); }
int aclrtMalloc(void** p, size_t n, int) { *p = aligned_alloc(512, (n + 511) / 512 * 512); g_memory[(uint64_t)*p] = n; return 0; }
int aclrtFree(void* p) { free(p); return g_memory.erase((uint64_t)p) ? 0 : Fail(107000, "not allocated"); }
int aclrtMemset(void* p, size_t most, int32_t v, size_t n) { if (n > most) return 107000; memset(p, v, n); return 0; }
int aclrtMemcpy(void* to, size_t most, const void* from, size_t n, int) { if (n > most) return 107000; memcpy(to, from, n); return 0; }
int aclrtGetHardwareSyncAddr(void** p) { *p = &g_place; return 0; }

int aclrtBinaryLoadFromFile(const char* path, Options* options, void** handle) {
    if (getenv("FAKE_ACL_MAGIC") && !(options && options->count == 1 && options->options[0].type == 2)) {
        return Fail(107001, "what cores is it for?");
    }
    std::ifstream file(path);
    std::string library;
    file >> library;
    void* so = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!so) return Fail(107002, dlerror());
    *handle = new Binary{((const Info* (*)())dlsym(so, "twin_kernel_info"))(), (Launch)dlsym(so, "twin_launch")};
    return 0;
}
int aclrtBinaryGetFunction(void* handle, const char* name, void** function) {
    *function = handle;
    return strcmp(((Binary*)handle)->info->name, name) ? Fail(107003, "no such kernel") : 0;
}
int aclrtLaunchKernelWithHostArgs(void* function, uint32_t blocks, void*, Config* config, void* host, size_t bytes, void*, size_t) {
    if (getenv("FAKE_ACL_CRASH")) abort();
    const Binary& binary = *(Binary*)function;
    const uint64_t* a = (const uint64_t*)host;
    const bool meets = *binary.info->marks & 1;
    const bool all = config && config->count == 1 && config->attrs[0].id == 1 && (config->attrs[0].value.word[0] & 0xff) == 1;
    if (bytes != 40 || meets != all) return Fail(107004, "bad launch");
    if (meets && ((const uint64_t*)a[4])[2] != (uint64_t)&g_place) return Fail(107005, "no meeting place");
    Arg args[4] = {};
    for (int i = 0; i < 4; ++i) {
        const uint64_t skip = i == 3 ? kSystem : 0;
        args[i] = {a[i] + skip, g_memory.at(a[i]) - skip, i < 2 ? 0 : i - 1, 0, 0, 0, 0};
    }
    Outcome outcome;
    const uint32_t count = args[3].bytes ? 4 : 3;
    if (binary.launch(binary.info, args, count, (const void*)a[4], g_memory.at(a[4]), 0, blocks, 3, 72, 2, &outcome)) {
        g_status = 507015;
        g_error = std::string(outcome.rule) + ": " + outcome.message;
    }
    return 0;
}
int aclrtSynchronizeStream(void*) {
    if (const char* status = getenv("FAKE_ACL_STATUS")) return Fail(atoi(status), "the vector core took an exception");
    return g_status;
}
}
"""


def make(home: Path) -> Path:
    """Makes the folder; takes a second for the library."""
    for folder in ("compiler", "bin", "lib64", "include"):
        (home / folder).mkdir(parents=True)
    (home / "compiler" / "version.info").write_text("Version=9.1.0\n")
    for name, text in (("bisheng", _BISHENG), ("llvm-objcopy", _OBJCOPY)):
        tool = home / "bin" / name
        here = repr(str(Path(__file__).parent))
        tool.write_text(text.replace("{python}", sys.executable).replace("{here!r}", here))
        tool.chmod(0o755)
    (home / "acl.cpp").write_text(_ACL)
    command = ["g++", "-std=c++17", "-shared", "-fPIC", "-O0", str(home / "acl.cpp"), "-ldl"]
    subprocess.run([*command, "-o", str(home / "lib64" / "libascendcl.so")], check=True)
    return home
