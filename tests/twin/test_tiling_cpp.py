"""The tiling of op_host.cpp, compiled, against the same steps in Python over many shapes."""

import ctypes
import random
import subprocess

import pytest
from concat_kernels import concat_text

from torchair_autofuse import opdef
from torchair_autofuse.codegen.op_host import tiling_part
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.soc.chip import chip
from torchair_autofuse.twin.toolchain import find_compiler

KERNELS = {
    "flat": """\
kernel k(in x: f16[s0, s1], out y: f16[s0, s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0*s1]
  v0: f16 = load x[a0]
  v1: f32 = cast(v0, rint)
  v2: f32 = exp(v1)
  v3: f16 = cast(v2, rint)
  store y[a0] = v3
""",
    "rows": """\
kernel k(in x: f32[s0, 2*s1], in h: f16[2*s1], out y: f16[s0, 2*s1]) where s0 = x.0, s1 = x.1 / 2
nest n0 [a0: s0, a1: 2*s1]
  v0: f32 = load x[2*s1*a0 + a1]
  v1: f16 = load h[a1]
  v2: f32 = cast(v1, rint)
  v3: f32 = mul(v0, v2)
  v4: f16 = cast(v3, rint)
  store y[2*s1*a0 + a1] = v4
""",
    "panels": """\
kernel k(in x: f32[s0, s1, s2], in g: f32[s1, 1], out y: bool[s0, s1, s2]) where s0 = x.0, s1 = x.1, s2 = x.2
nest n0 [a0: s0, a1: s1, a2: s2]
  v0: f32 = load x[s1*s2*a0 + s2*a1 + a2]
  v1: f32 = load g[a1]
  v2: bool = lt(v0, v1)
  store y[s1*s2*a0 + s2*a1 + a2] = v2
""",
    "columns": """\
kernel k(in x: f32[s0, s1, s2], out y: f32[s0, s1, s2], out z: f16[s0, s2]) where s0 = x.0, s1 = x.1, s2 = x.2
nest n0 [a0: s0, a1: s1, a2: s2]
  v0: f32 = load x[s1*s2*a0 + s2*a1 + a2]
  v1: f32 = reduce max(v0) over (a1)
  v2: f32 = sub(v0, v1)
  v3: f16 = cast(v1, rint)
  store y[s1*s2*a0 + s2*a1 + a2] = v2
  store z[s2*a0 + a2] = v3
""",
    "sums": """\
kernel k(in x: f32[s0, s1], in h: f16[s0], out y: f16[s0]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  v0: f32 = load x[s1*a0 + a1]
  v1: f16 = load h[a0]
  v2: f32 = cast(v1, rint)
  v3: f32 = mul(v0, v2)
  v4: f32 = reduce sum(v3) over (a1)
  v5: f16 = cast(v4, rint)
  store y[a0] = v5
""",
    "side by side": concat_text(["s0", 0], 1, ["s1", 17, "s2"], bodies=("copy", "bias", "neg")),
    "end to end": concat_text([0, 3], 0, ["s0", "s1", 5], bodies=("copy", "bias")),
}
SOCS = ("Ascend910B1", "Ascend950PR_9599")


@pytest.fixture(scope="module")
def definitions(make_op):
    made = {(k, soc): make_op(KERNELS[k], soc) for k in KERNELS for soc in SOCS}
    return {key: (op, Definition.of(opdef.build(op, chip(key[1])))) for key, op in made.items()}


@pytest.fixture(scope="module")
def library(definitions, tmp_path_factory):
    """One library for all; each function takes symbols, core_num, ub_bytes and fills the tiling data and the launch."""
    folder = tmp_path_factory.mktemp("tiling")
    parts = ["#include <cstdint>", "#include <cstring>"]
    for i, (op, definition) in enumerate(definitions.values()):
        plan = definition.host_plan
        args = ", ".join(f"in[{k}]" for k in range(len(plan.kernel.symbols) + 2))
        parts += [
            f"namespace k{i} {{", op.text.tiling_h.replace("_TILING_H", f"_{i}_TILING_H"), tiling_part(plan),
            f'extern "C" void run{i}(const int64_t* in, int64_t* out) {{',
            f"    {op.op_type}Tiling t;",
            f"    const HostLaunch launch = ComputeTiling({args}, &t);",
            "    std::memcpy(out, &t, sizeof(t));",
            "    std::memcpy(out + sizeof(t) / 8, &launch, sizeof(launch));",
            "}", "}",
        ]  # fmt: skip
    (folder / "all.cpp").write_text("\n".join(parts))
    command = [find_compiler().compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    subprocess.run([*command, "-shared", "-fPIC", "all.cpp", "-o", "all.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "all.so"))


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_cpp_and_python_agree(definitions, library, kernel, soc):
    index = list(definitions).index((kernel, soc))
    op, definition = definitions[kernel, soc]
    rng = random.Random(f"{kernel} {soc}")
    names = [s.name for s in op.lowered.kernel.symbols]
    seen = set()
    for _ in range(400):
        symbols = {n: rng.choice([0, 1, 2, 7, 8, 31, 64, rng.randrange(3000), rng.randrange(200000)]) for n in names}
        core_num, ub_bytes = rng.choice([1, 8, 40, 48, 72]), rng.choice([196608, 253952])
        values = [*symbols.values(), core_num, ub_bytes]
        out = (ctypes.c_int64 * (len(definition.fields) + 4))()
        getattr(library, f"run{index}")((ctypes.c_int64 * len(values))(*values), out)
        launch = definition.launch(symbols, core_num, ub_bytes)
        expected = [launch.values[f] for f in definition.fields]
        expected += [launch.block_dim, launch.tiling_key, launch.workspace_bytes, launch.ub_used]
        assert list(out) == expected, symbols
        scheduled = op.schedule.tiling(symbols, core_num, ub_bytes)
        assert [scheduled[f] for f in definition.fields] == expected[:-4]
        seen.add(launch.block_dim)
    assert len(seen) > 10  # small and large shapes were met
