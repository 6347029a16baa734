"""Building kernels: the cache, concurrency, compiler errors, and that what is not modelled does not compile."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from twin_support import HEAD, TILING_H, launch

from torchair_autofuse.loop.verify import VerifyError
from torchair_autofuse.opdef.errors import ArtefactError, OpDefError
from torchair_autofuse.twin import build as build_module
from torchair_autofuse.twin.build import BuildJob, build, build_job, build_many
from torchair_autofuse.twin.errors import KernelBuildError, NoCompiler, TwinViolation
from torchair_autofuse.twin.launcher import load

BODY = """
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {{
    LocalTensor<float> f, g; LocalTensor<half> h; LocalTensor<int32_t> i; LocalTensor<uint8_t> u; LocalTensor<int64_t> l;
    GlobalTensor<float> gf; {decls}
    if (GetBlockNum() < 0) {{ {code} }}
}}
"""


def kernel(code: str, decls: str = "") -> dict[str, str]:
    return {"kernel.cpp": HEAD + BODY.format(code=code, decls=decls), "tiling.h": TILING_H}


REJECTED = [
    (2201, "Add(l, l, l, 8);", "Add: dtype not supported"),
    (2201, "Div(i, i, i, 8);", "Div: dtype not supported"),
    (2201, "LocalTensor<bfloat16_t> b; Add(b, b, b, 8);", "Add: dtype not supported"),
    (2201, "Exp(i, i, 8);", "Exp: dtype not supported"),
    (2201, "And(i, i, i, 8);", "And: dtype not supported"),
    (2201, "Duplicate(u, static_cast<uint8_t>(0), 8);", "Duplicate: dtype not supported"),
    (2201, "Cast(f, u, RoundMode::CAST_NONE, 8);", "Cast: this pair"),
    (2201, "LocalTensor<bfloat16_t> b; Cast(h, b, RoundMode::CAST_RINT, 8);", "Cast: this pair"),
    (2201, "Cast(h, l, RoundMode::CAST_RINT, 8);", "Cast: this pair"),
    (2201, "CompareScalar(u, l, static_cast<int64_t>(0), CMPMODE::EQ, 32);", "CompareScalar: dtype not supported"),
    (2201, "LocalTensor<int8_t> s; CompareScalar(s, f, 0.0f, CMPMODE::EQ, 64);", "CompareScalar: dtype not supported"),
    (2201, "Muls(h, h, 2.0f, 16);", "no matching function"),  # the scalar has the element type
    (2201, "const uint32_t s[2] = {2, 16}; ReduceSum<half, Pattern::Reduce::AR>(h, h, u, s, true);", "ReduceSum: dtype"),
    (2201, "Neg(f, f, 8);", "was not declared"),
    (2201, "Rint(f, f, 8);", "was not declared"),
    (2201, "Clamp(f, f, 0.0f, 1.0f, 8);", "was not declared"),
    (2201, "SortTwice(f, f, 8);", "was not declared"),
    (2201, "PipeBarrier<PIPE_S>();", "PipeBarrier"),
    (2201, "int k = 3; DataCopyExtParams p{k, 4, 0, 0, 0};", "narrowing"),
    (2201, "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AICORE);", "kernel type not available"),
    (2201, "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);", "kernel type not available"),
    (3510, "Add<float>(f, f, f, uint64_t(64), 1, UnaryRepeatParams());", "no matching function"),
    (3510, "uint64_t m = 8; Add(l, l, l, m, 1, BinaryRepeatParams());", "Add: dtype not supported"),
    (3510, "LocalTensor<bfloat16_t> b; Div(b, b, b, 16);", "Div: dtype not supported"),
    (2002, "DataCopyExtParams p{1, 4, 0, 0, 0}; DataCopyPad(gf, f, p);", "does not exist on this chip"),
    (2002, "bfloat16_t b;", "was not declared"),
    (2002, "ShiftLeft(i, i, 1, 8);", "ShiftLeft: dtype not supported"),
    (2002, "SyncAll();", "no matching function"),
    (2002, "CopyRepeatParams p(1, 1, 8, 8); Copy(f, f, 64, 1, p);", "was not declared"),
    (2002, "Cast(f, f, RoundMode::CAST_RINT, 8);", "Cast: this pair"),
    (2002, "Compare(u, i, i, CMPMODE::EQ, 64);", "Compare: dtype not supported"),
]  # fmt: skip


def test_what_is_not_modelled_does_not_compile():
    jobs = [BuildJob(kernel(code), "k", arch) for arch, code, _ in REJECTED]
    for (arch, code, words), result in zip(REJECTED, build_many(jobs)):
        assert isinstance(result, KernelBuildError), f"{arch}: {code} compiles"
        assert words in result.errors, f"{arch}: {code}: {result.errors}"
        assert result.code == "AF405"


ACCEPTED = {
    2201: "Add(f, f, f, 8); Cast(h, u, RoundMode::CAST_NONE, 8); Adds(i, i, 3, 8); DataCopy(gf, f, 8); Brcb(f, f, 1, {1, 8});"
    "Muls(h, h, static_cast<half>(2.0f), 16); LocalTensor<bfloat16_t> b; Cast(b, f, RoundMode::CAST_RINT, 8); float s = f.GetValue(0) + 1;"
    "gf.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE); half q = static_cast<half>(s); q += q; if (q > static_cast<half>(1)) { SyncAll(); }",
    3510: "LocalTensor<bfloat16_t> b; Add(b, b, b, 16); Add(l, l, l, 8); Add(u, u, u, 32); Cast(b, h, RoundMode::CAST_RINT, 16); Neg(i, i, 8);",
    2002: "Add(f, f, f, 8); Cast(f, h, RoundMode::CAST_NONE, 8); DataCopy(gf, f, 8); KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AICORE);",
}  # fmt: skip


@pytest.mark.parametrize("arch", sorted(ACCEPTED))
def test_what_the_chip_has_compiles(arch):
    so = build(kernel(ACCEPTED[arch]), "k", npu_arch=arch)
    assert load(so).arch == arch and load(so).params == 4
    assert load(so).uses_sync_all == ("SyncAll" in ACCEPTED[arch])


def test_errors_can_be_made_of_one_text():
    """TorchAir raises what leaves a compile again as type(error)(text)."""
    for kind in (KernelBuildError, NoCompiler, TwinViolation, OpDefError, ArtefactError, VerifyError):
        assert "AF000: text" in str(kind("AF000: text"))


def test_cache_hits_and_keys(tmp_path, monkeypatch):
    a = build(kernel("Add(f, f, f, 8);"), "k")
    monkeypatch.setattr(build_module, "_compile_kernel", lambda *a, **k: pytest.fail("built again"))
    assert build(kernel("Add(f, f, f, 8);"), "k") == a
    jobs = [
        BuildJob(kernel("Add(f, f, f, 8);"), "k"), BuildJob(kernel("Add(f, f, f, 9);"), "k"),
        BuildJob(kernel("Add(f, f, f, 8);"), "k", 3510), BuildJob(kernel("Add(f, f, f, 8);"), "k", 2201, "kernel.cpp", ("A",)),
    ]  # fmt: skip
    toolchain = build_module.find_compiler()
    assert len({j.key(toolchain) for j in jobs}) == len(jobs)


def test_sources_from_text_and_folder(tmp_path):
    text = kernel("")["kernel.cpp"].replace('#include "tiling.h"\n', "")
    (tmp_path / "kernel.cpp").write_text(text)
    (tmp_path / "notes.txt").write_text("not a source")
    assert build(text, "k") == build(tmp_path, "k")
    with pytest.raises(FileNotFoundError, match="not a folder"):
        build(tmp_path / "nothing", "k")
    with pytest.raises(ValueError, match=r"no file 'kernel\.cpp'"):
        build({"other.cpp": text}, "k")
    with pytest.raises(ValueError, match="npu_arch 9 is"):
        build(text, "k", npu_arch=9)


def test_wrong_entry_name():
    with pytest.raises(KernelBuildError, match="was not declared"):
        build(kernel(""), "nosuch")


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NoCompiler, match="no-such-compiler") as error:
        build(kernel("") | {"x.h": ""}, "k", cache_root=tmp_path)
    assert error.value.code == "AF404"


def test_fresh_cache_filled_by_two_processes_at_once(tmp_path):
    script = (
        f"import sys; from pathlib import Path; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_build import kernel; from torchair_autofuse.twin.build import build\n"
        f"print(build(kernel('Add(f, f, f, 8);'), 'k', cache_root=Path({str(tmp_path)!r})))"
    )
    runs = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = {run.communicate(timeout=300)[0].strip() for run in runs}
    assert all(run.returncode == 0 for run in runs) and len(outputs) == 1
    so = Path(outputs.pop())
    assert so.parent.parent.parent == tmp_path and load(so).entry == "k"
    assert {p.name for p in (tmp_path / "twin" / "kernels").iterdir()} == {so.name, f"{so.name}.json"}


def test_build_many_keeps_order_and_survives_errors():
    jobs = [BuildJob(kernel(f"Adds(f, f, {v}.0f, 8);"), "k") for v in range(3)]
    jobs.insert(1, BuildJob(kernel("Broken("), "k"))
    results = build_many(jobs, workers=2)
    assert isinstance(results[1], KernelBuildError)
    assert [r for i, r in enumerate(results) if i != 1] == [build_job(j) for i, j in enumerate(jobs) if i != 1]
    assert build_many([]) == []


BITS = (
    HEAD
    + """
extern "C" __global__ __aicore__ void bits(GM_ADDR x, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    GlobalTensor<half> gx, gz; gx.SetGlobalBuffer((__gm__ half*)x); gz.SetGlobalBuffer((__gm__ half*)z);
    for (int64_t i = 0; i < 2048; ++i) { half v = gx.GetValue(i); gz.SetValue(i, static_cast<half>(static_cast<float>(v) * 3.0f)); }
}
"""
)


def test_half_conversions_of_every_pattern():
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    for part in np.split(x, 32):
        z = np.zeros(2048, np.float16)
        launch(BITS, "bits", [np.ascontiguousarray(part)], [z])
        with np.errstate(all="ignore"):
            want = (part.astype(np.float32) * np.float32(3)).astype(np.float16)
        np.testing.assert_array_equal(z, want)
