"""DataCopy and DataCopyPad: strides, padding, what the dummy bytes hold, traffic counters, blocks, SyncAll, atomics."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twin_support import HEAD, launch

from torchair_autofuse.twin.errors import TwinViolation

KERNEL = """
extern "C" __global__ __aicore__ void copies(GM_ADDR x, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    REGISTER_TILING_DEFAULT(CopyTiling);
    GET_TILING_DATA(t, tiling);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> q;
    pipe.InitBuffer(q, 1, 65536);
    GlobalTensor<half> gx, gz;
    gx.SetGlobalBuffer((__gm__ half*)x);
    gz.SetGlobalBuffer((__gm__ half*)z);
    LocalTensor<half> a = q.AllocTensor<half>();
    DataCopyExtParams in{static_cast<uint16_t>(t.rows), t.width * 2, t.inGap * 2, t.ubGap, 0};
    DataCopyPadExtParams<half> pad{t.isPad != 0, static_cast<uint8_t>(t.left), static_cast<uint8_t>(t.right), static_cast<half>(7)};
    DataCopyPad(a, gx[t.offset], in, pad);
    q.EnQue(a);
    a = q.DeQue<half>();
    DataCopyExtParams out{static_cast<uint16_t>(t.rows), t.storeWidth * 2, t.ubGapOut, t.outGap * 2, 0};
    DataCopyPad(gz, a, out);
    q.FreeTensor(a);
}
"""
FIELDS = (
    "rows",
    "width",
    "inGap",
    "ubGap",
    "isPad",
    "left",
    "right",
    "offset",
    "storeWidth",
    "ubGapOut",
    "outGap",
    "unused",
)
COPY_H = "#pragma once\n#include <cstdint>\nstruct CopyTiling { uint32_t " + ", ".join(FIELDS) + "; };\n"


def copy(x, out, **fields):
    values = np.array([fields.get(f, 0) for f in FIELDS], np.uint32)
    source = HEAD.replace('#include "tiling.h"\n', COPY_H.replace("#pragma once\n", "")) + KERNEL
    return launch(source, "copies", [x], [out], tiling_bytes=values.tobytes())


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 9), width=st.integers(1, 70), in_gap=st.integers(0, 40), out_gap=st.integers(0, 40),
    ub_gap=st.integers(0, 3), offset=st.integers(0, 5),
)  # fmt: skip
def test_strided_rows(rows, width, in_gap, out_gap, ub_gap, offset):
    pitch, out_pitch = width + in_gap, width + out_gap
    x = np.arange(offset + rows * pitch, dtype=np.float16)
    out = np.full(rows * out_pitch, -1, np.float16)
    profile = copy(x, out, rows=rows, width=width, inGap=in_gap, ubGap=ub_gap, offset=offset, storeWidth=width,
                   ubGapOut=ub_gap, outGap=out_gap)  # fmt: skip
    want = np.full((rows, out_pitch), -1, np.float16)
    want[:, :width] = x[offset:].reshape(rows, pitch)[:, :width]
    np.testing.assert_array_equal(out.reshape(rows, out_pitch), want)
    assert profile.gm_read_bytes == profile.gm_written_bytes == rows * width * 2
    assert profile.args[1].unwritten == rows * out_gap * 2
    assert (profile.dma_in, profile.dma_out, profile.mean_dma_bytes) == (1, 1, rows * width * 2)
    assert (profile.dma_blocks, profile.mean_block_bytes) == (2 * rows, width * 2)


def test_padding_is_what_was_asked_for():
    x = np.arange(1, 31, dtype=np.float16)
    out = np.zeros(3 * 16, np.float16)
    copy(x, out, rows=3, width=10, isPad=1, left=2, right=4, storeWidth=16)
    want = np.full((3, 16), 7, np.float16)
    want[:, 2:12] = x.reshape(3, 10)
    np.testing.assert_array_equal(out.reshape(3, 16), want)


def test_without_padding_dummies_repeat_the_first_element():
    x = np.arange(1, 31, dtype=np.float16)
    out = np.zeros(3 * 16, np.float16)
    copy(x, out, rows=3, width=10, storeWidth=16)
    want = np.repeat(x.reshape(3, 10)[:, :1], 16, 1)
    want[:, :10] = x.reshape(3, 10)
    np.testing.assert_array_equal(out.reshape(3, 16), want)


def test_dummies_beyond_the_padding_are_undefined():
    x = np.arange(1, 31, dtype=np.float16)
    with pytest.raises(TwinViolation) as error:
        copy(x, np.zeros(48, np.float16), rows=3, width=10, isPad=1, left=0, right=4, storeWidth=16)
    assert error.value.rule == "uninitialised"
    copy(x, np.zeros(42, np.float16), rows=3, width=10, isPad=1, left=0, right=4, storeWidth=14)


def test_no_op_copies():
    x, out = np.ones(8, np.float16), np.zeros(8, np.float16)
    profile = copy(x, out, rows=0, width=8, storeWidth=8)
    assert profile.gm_bytes == 0 and (out == 0).all()


SPLIT = (
    HEAD
    + """
extern "C" __global__ __aicore__ void split(GM_ADDR x, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    REGISTER_TILING_DEFAULT(TestTiling);
    GET_TILING_DATA(t, tiling);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> qi; TQue<TPosition::VECOUT, 1> qo; TBuf<TPosition::VECCALC> b;
    pipe.InitBuffer(qi, 2, 4096); pipe.InitBuffer(qo, 1, 4096); pipe.InitBuffer(b, 4096);
    GlobalTensor<float> gx, gz, gw;
    gx.SetGlobalBuffer((__gm__ float*)x); gz.SetGlobalBuffer((__gm__ float*)z); gw.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));
    LocalTensor<float> a = qi.AllocTensor<float>(), c = qo.AllocTensor<float>();
    DataCopy(a, gx[GetBlockIdx() * 512], 512); qi.EnQue(a); a = qi.DeQue<float>();
    Duplicate(c, 0.0f, 8); PipeBarrier<PIPE_V>();
    ReduceSum(c, a, b.Get<float>(), 512);
    qi.FreeTensor(a); qo.EnQue(c); c = qo.DeQue<float>(); DataCopy(gw[GetBlockIdx() * 8], c, 8); qo.FreeTensor(c);
    SyncAll();
    if (GetBlockIdx() == 0) {
        uint32_t n = static_cast<uint32_t>(GetBlockNum() * 8);
        a = qi.AllocTensor<float>(); DataCopy(a, gw, n); qi.EnQue(a); a = qi.DeQue<float>();
        c = qo.AllocTensor<float>(); Duplicate(c, 0.0f, 8); PipeBarrier<PIPE_V>();
        ReduceSum(c, a, b.Get<float>(), n);
        qi.FreeTensor(a); qo.EnQue(c); c = qo.DeQue<float>();
        DataCopyExtParams p{1, 4, 0, 0, 0}; DataCopyPad(gz, c, p); qo.FreeTensor(c);
    }
}
"""
)


@pytest.mark.parametrize("blocks", [1, 2, 40])
def test_blocks_meet_at_sync_all(blocks):
    x = np.random.default_rng(0).standard_normal(512 * blocks).astype(np.float32)
    results = set()
    for seed in range(3):
        z = np.zeros(1, np.float32)
        profile = launch(SPLIT, "split", [x], [z], block_dim=blocks, seed=seed, workspace=4096)
        np.testing.assert_allclose(z[0], x.astype(np.float64).sum(), rtol=1e-4, atol=1e-3)
        results.add(z.tobytes())
        assert profile.sync_alls == blocks
        assert profile.args[0].read == x.nbytes and profile.args[2].written == blocks * 32
    assert len(results) == 1


ATOMIC = (
    HEAD
    + """
extern "C" __global__ __aicore__ void atomic(GM_ADDR x, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> q; TQue<TPosition::VECOUT, 1> qo;
    pipe.InitBuffer(q, 1, 4096); pipe.InitBuffer(qo, 1, 4096);
    GlobalTensor<TYPE> gx, gz;
    gx.SetGlobalBuffer((__gm__ TYPE*)x); gz.SetGlobalBuffer((__gm__ TYPE*)z);
    if (GetBlockIdx() == 0 && ZERO) {
        LocalTensor<TYPE> c = qo.AllocTensor<TYPE>(); Duplicate(c, static_cast<TYPE>(0), 64); qo.EnQue(c); c = qo.DeQue<TYPE>();
        DataCopy(gz, c, 64); qo.FreeTensor(c);
    }
    SyncAll();
    LocalTensor<TYPE> a = q.AllocTensor<TYPE>(); DataCopy(a, gx[GetBlockIdx() * 64], 64); q.EnQue(a); a = q.DeQue<TYPE>();
    SetAtomicAdd<TYPE>(); DataCopy(gz, a, 64); SetAtomicNone();
    q.FreeTensor(a);
}
"""
)


@pytest.mark.parametrize(("cpp", "dtype"), [("float", np.float32), ("half", np.float16), ("int32_t", np.int32)])
def test_atomic_add(cpp, dtype):
    x = np.random.default_rng(1).integers(-20, 20, 8 * 64).astype(dtype)
    z = np.ones(64, dtype)
    source = (
        ATOMIC.replace("TYPE", cpp)
        .replace("KERNEL_" + cpp, "KERNEL_TYPE")
        .replace("KERNEL_TASK_" + cpp, "KERNEL_TASK_TYPE")
    )
    source = source.replace(f"KERNEL_TASK_{cpp}_DEFAULT", "KERNEL_TASK_TYPE_DEFAULT")
    launch(source.replace("ZERO", "true"), "atomic", [x], [z], block_dim=8)
    np.testing.assert_array_equal(z, x.reshape(8, 64).sum(0).astype(dtype))
    if dtype == np.float32:
        with pytest.raises(TwinViolation) as error:  # nothing was there to add to
            launch(source.replace("ZERO", "false"), "atomic", [x], [z], block_dim=8)
        assert error.value.rule == "uninitialised"


def test_float_atomics_add_in_the_order_of_the_seed():
    x = np.random.default_rng(1).standard_normal(8 * 64).astype(np.float32)
    source = ATOMIC.replace("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0)", "@").replace("TYPE", "float")
    source = source.replace("@", "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0)").replace("ZERO", "true")
    runs = {}
    for seed in (0, 1, 2, 0, 1, 2):
        z = np.zeros(64, np.float32)
        launch(source, "atomic", [x], [z], block_dim=8, seed=seed)
        assert runs.setdefault(seed, z.tobytes()) == z.tobytes()
    assert len(set(runs.values())) > 1  # other orders give other last bits, as on the chip


def test_output_may_be_an_input():
    text = (
        HEAD
        + """
extern "C" __global__ __aicore__ void inplace(GM_ADDR x, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    TPipe pipe; TQue<TPosition::VECIN, 1> qi; TQue<TPosition::VECOUT, 1> qo; pipe.InitBuffer(qi, 2, 256); pipe.InitBuffer(qo, 2, 256);
    GlobalTensor<float> gx, gz; gx.SetGlobalBuffer((__gm__ float*)x); gz.SetGlobalBuffer((__gm__ float*)z);
    for (int64_t i = GetBlockIdx(); i < 16; i += GetBlockNum()) {
        LocalTensor<float> a = qi.AllocTensor<float>(); DataCopy(a, gx[i * 64], 64); qi.EnQue(a); a = qi.DeQue<float>();
        LocalTensor<float> c = qo.AllocTensor<float>(); Adds(c, a, 1.0f, 64); qi.FreeTensor(a);
        qo.EnQue(c); c = qo.DeQue<float>(); DataCopy(gz[i * 64], c, 64); qo.FreeTensor(c);
    }
}
"""
    )
    x = np.arange(1024, dtype=np.float32)
    launch(text, "inplace", [x], [x], block_dim=4)
    np.testing.assert_array_equal(x, np.arange(1, 1025))
