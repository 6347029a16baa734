"""For each rule a small kernel that breaks it, and the mended one that runs. One build holds them all."""
# ruff: noqa: E501  (kernel text stays on one line)

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from twin_support import HEAD, TILING_H, launch, tiling

from torchair_autofuse.twin.build import build
from torchair_autofuse.twin.errors import TwinViolation
from torchair_autofuse.twin.launcher import load
from torchair_autofuse.twin.rules import RULES
from torchair_autofuse.twin.toolchain import INCLUDE, RUNTIME

HELPERS = """
using In = TQue<TPosition::VECIN, 1>;
using Out = TQue<TPosition::VECOUT, 1>;
__aicore__ inline LocalTensor<float> Load(In& q, const GlobalTensor<float>& g, uint32_t n) {
    LocalTensor<float> t = q.AllocTensor<float>();
    DataCopy(t, g, n);
    q.EnQue(t);
    return q.DeQue<float>();
}
__aicore__ inline void Store(Out& q, LocalTensor<float>& c, const GlobalTensor<float>& g, uint32_t n) {
    q.EnQue(c);
    c = q.DeQue<float>();
    DataCopy(g, c, n);
    q.FreeTensor(c);
}
"""
FRAME = "TPipe pipe; In qa, qb; Out qc; TBuf<TPosition::VECCALC> bt; pipe.InitBuffer(qa, 2, 4096); pipe.InitBuffer(qb, 1, 4096); pipe.InitBuffer(qc, 1, 4096); pipe.InitBuffer(bt, 16384);"
BARRIER = "PipeBarrier<PIPE_V>();"
DONE = "Store(qc, c, gz, 64); qa.FreeTensor(a);"
LOADED = "LocalTensor<float> a = Load(qa, gx, 1024), c = qc.AllocTensor<float>();"
TMP = "LocalTensor<float> w = bt.Get<float>();"


@dataclass(frozen=True)
class Rule:
    rule: str
    broken: str
    mended: str
    name: str = ""
    frame: str = FRAME
    blocks: int = 1


def swap(rule, text, bad, good, name="", frame=FRAME, blocks=1):
    """``text`` with its one `$` replaced by a broken and by a good piece."""
    return Rule(rule, text.replace("$", bad), text.replace("$", good), name, frame, blocks)


CASES = [
    swap("alignment", f"{LOADED} Adds(c, a[$], 1.0f, 64); {DONE}", "4", "8"),
    swap("alignment", "LocalTensor<half> c = qc.AllocTensor<half>(); Duplicate(c, half(0), 16); GlobalTensor<half> gh; gh.SetGlobalBuffer((__gm__ half*)(z + $)); qc.EnQue(c); c = qc.DeQue<half>(); DataCopy(gh, c, 16); qc.FreeTensor(c);",
         "1", "0", "gm"),
    swap("atomic", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 0.0f, 64); Store(qc, c, gz, 64); SetAtomicAdd<float>(); $", "", "SetAtomicNone();"),
    swap("block-overlap", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, 64); Store(qc, c, gz[GetBlockIdx() * $], 64);", "60", "64", blocks=4),
    swap("block-overlap", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, 64); qc.EnQue(c); c = qc.DeQue<float>(); DataCopyExtParams p{1, $, 0, 0, 0}; DataCopyPad(gz[GetBlockIdx() * ($ / 4)], c, p); qc.FreeTensor(c);",
         "16", "32", "half a block each", blocks=2),
    swap("blockcount", "LocalTensor<uint8_t> t = qa.AllocTensor<uint8_t>(); GlobalTensor<uint8_t> g; g.SetGlobalBuffer(x); DataCopyParams p($, 0, 0, 0); DataCopy(t, g, p); qa.FreeTensor(t);", "4096", "4095"),
    swap("blocklen", "LocalTensor<float> t = qa.AllocTensor<float>(); DataCopyExtParams p{1, $, 0, 0, 0}; DataCopyPadExtParams<float> e; DataCopyPad(t, gx, p, e); qa.FreeTensor(t);", "6", "8"),
    swap("cast-mode", f"{LOADED} {TMP} LocalTensor<bfloat16_t> h = w.ReinterpretCast<bfloat16_t>(); Cast(h, a, RoundMode::$, 64); {BARRIER} Cast(c, h, RoundMode::CAST_NONE, 64); {DONE}", "CAST_NONE", "CAST_RINT"),
    swap("compare-256", f"{LOADED} CompareScalar(bt.Get<uint8_t>(), a, 0.0f, CMPMODE::GT, $); Adds(c, a, 0.0f, 64); {DONE}", "60", "64"),
    swap("count", f"{LOADED} Adds(c, a, 1.0f, $); {DONE}", "1025", "1024"),
    swap("count", f"{LOADED} LocalTensor<float> part = bt.Get<float>(64); Adds(part, a, 1.0f, $); {BARRIER} Adds(c, part, 1.0f, 64); {DONE}", "128", "64", "beyond the tensor but inside the buffer"),
    swap("cross-block-read", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, 64); Store(qc, c, gw[GetBlockIdx() * 64], 64); $ LocalTensor<float> a = Load(qa, gw[(1 - GetBlockIdx()) * 64], 64); c = qc.AllocTensor<float>(); Adds(c, a, 1.0f, 64); Store(qc, c, gz[GetBlockIdx() * 64], 64); qa.FreeTensor(a);",
         "", "SyncAll();", blocks=2),
    swap("datacopy-32", "LocalTensor<float> t = qa.AllocTensor<float>(); DataCopy(t, gx, $); qa.FreeTensor(t);", "9", "8"),
    swap("dtype", f"{LOADED} LocalTensor<int32_t> i = a.ReinterpretCast<int32_t>(); CompareScalar(bt.Get<uint8_t>(), i, 0, CMPMODE::$, 64); Adds(c, a, 0.0f, 64); {DONE}", "GT", "EQ"),
    swap("event-id", "SetFlag<HardEvent::S_V>($); WaitFlag<HardEvent::S_V>($);", "6", "5"),
    swap("event-id", "TEventID e = 0; for (int i = 0; i < $; ++i) { e = pipe.AllocEventID<HardEvent::S_V>(); }", "9", "8", "nine ids"),
    swap("flag-pairing", "SetFlag<HardEvent::S_V>(0); $", "", "WaitFlag<HardEvent::S_V>(0);", "never waited"),
    swap("flag-pairing", "$ WaitFlag<HardEvent::S_V>(0);", "", "SetFlag<HardEvent::S_V>(0);", "never set"),
    swap("flag-pairing", "SetFlag<HardEvent::S_V>(0); SetFlag<HardEvent::S_V>($); WaitFlag<HardEvent::S_V>(0); WaitFlag<HardEvent::S_V>($);", "0", "1", "set twice"),
    swap("gm-bounds", "LocalTensor<float> t = qa.AllocTensor<float>(); DataCopy(t, gx[1024 - $], 64); qa.FreeTensor(t);", "56", "64"),
    swap("gm-bounds", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, 64); Store(qc, c, $, 64);", "gx", "gz", "write to an input"),
    swap("gm-bounds", "GlobalTensor<float> s; s.SetGlobalBuffer((__gm__ float*)z, 128); LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, 64); Store(qc, c, s[$], 64);", "200", "64", "beyond SetGlobalBuffer"),
    swap("live-tensors", "TPipe pipe; TQue<TPosition::VECIN, 1> q[3]; for (int i = 0; i < 3; ++i) { pipe.InitBuffer(q[i], 3, 32); } LocalTensor<float> t[9]; for (int i = 0; i < $; ++i) { t[i] = q[i / 3].AllocTensor<float>(); } for (int i = 0; i < $; ++i) { q[i / 3].FreeTensor(t[i]); }",
         "9", "8", frame=""),
    swap("mask", f"{LOADED} Duplicate(c, 0.0f, 1024); {BARRIER} UnaryRepeatParams r(1, 1, 8, 8); Adds(c, a, 1.0f, $, 2, r); {DONE}", "65", "64"),
    swap("mask", "SetMaskCount(); $", "", "SetMaskNorm();", "counter mode left on"),
    swap("overlap", f"{LOADED} Adds(a[$], a, 1.0f, 64); {BARRIER} Adds(c, a, 0.0f, 64); {DONE}", "8", "64"),
    swap("overlap", f"{LOADED} {TMP} Tanh($, a, bt.GetWithOffset<uint8_t>(4096, 8192), 64); {BARRIER} Adds(c, $, 0.0f, 64); {DONE}", "a", "w", "high-level in place"),
    swap("overlap", f"{LOADED} Duplicate(c, 0.0f, 1024); {BARRIER} BinaryRepeatParams r(1, 1, 1, 8, 8, 8); Add(a[$], a, a, 64, 2, r); {BARRIER} Adds(c, a, 0.0f, 64); {DONE}", "64", "128", "dst is the source of a later repeat"),
    swap("padding", "LocalTensor<float> t = qa.AllocTensor<float>(); DataCopyExtParams p{1, 8, 0, 0, 0}; DataCopyPadExtParams<float> e{true, 0, $, 0.0f}; DataCopyPad(t, gx, p, e); qa.FreeTensor(t);", "9", "6"),
    swap("pipe-hazard", "LocalTensor<float> a = qa.AllocTensor<float>(), c = qc.AllocTensor<float>(); DataCopy(a, gx, 64); $ Adds(c, a, 1.0f, 64); Store(qc, c, gz, 64); qa.FreeTensor(a);",
         "", "qa.EnQue(a); a = qa.DeQue<float>();", "load to vector"),
    swap("pipe-hazard", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, 64); $ DataCopy(gz, c, 64); qc.FreeTensor(c);", "", "qc.EnQue(c); c = qc.DeQue<float>();", "vector to store"),
    swap("pipe-hazard", f"{LOADED} Adds(c, a, 1.0f, 64); $ Muls(c, c, 2.0f, 64); {DONE}", "", BARRIER, "vector to vector"),
    swap("pipe-hazard", f"{LOADED} {TMP} Adds(c, a, 1.0f, 64); $ Duplicate(a, 2.0f, 64); {BARRIER} {DONE}", "", BARRIER, "write after read"),
    swap("pipe-hazard", f"{LOADED} Adds(c, a, 1.0f, 64); $ float v = c.GetValue(0); TEventID e = pipe.FetchEventID<HardEvent::S_V>(); SetFlag<HardEvent::S_V>(e); WaitFlag<HardEvent::S_V>(e); {BARRIER} Adds(c, a, v, 64); {DONE}",
         "", "SetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);", "vector to scalar"),
    swap("pipe-hazard", f"{LOADED} {TMP} w.SetValue(0, 1.0f); for (int i = 1; i < 8; ++i) {{ w.SetValue(i, 2.0f); }} $ Adds(c, w, 1.0f, 8); {BARRIER} Adds(c[8], a, 1.0f, 64); {DONE}",
         "", "SetFlag<HardEvent::S_V>(0); WaitFlag<HardEvent::S_V>(0);", "scalar to vector"),
    swap("pipe-hazard", "LocalTensor<float> a = qa.AllocTensor<float>(), c = qc.AllocTensor<float>(); DataCopy(a, gx, 64); $ DataCopy(a, gx[64], 64); qa.EnQue(a); a = qa.DeQue<float>(); Adds(c, a, 1.0f, 64); Store(qc, c, gz, 64); qa.FreeTensor(a);",
         "", "PipeBarrier<PIPE_MTE2>();", "two loads"),
    swap("pipe-hazard", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, 64); qc.EnQue(c); c = qc.DeQue<float>(); DataCopy(gz, c, 64); $ DataCopy(gz, c, 64); qc.FreeTensor(c);",
         "", "PipeBarrier<PIPE_MTE3>();", "two stores"),
    swap("pipe-hazard", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, 64); Store(qc, c, gw, 64); $ LocalTensor<float> a = Load(qa, gw, 64); c = qc.AllocTensor<float>(); Adds(c, a, 1.0f, 64); Store(qc, c, gz, 64); qa.FreeTensor(a);",
         "", "SetFlag<HardEvent::MTE3_MTE2>(0); WaitFlag<HardEvent::MTE3_MTE2>(0);", "store to load through GM"),
    swap("pipe-hazard", "In q1; TPipe pipe; TBuf<TPosition::VECIN> b; pipe.InitBuffer(b, 4096); Out qc; pipe.InitBuffer(qc, 1, 4096); LocalTensor<float> a = b.Get<float>(), c = qc.AllocTensor<float>(); DataCopy(a, gx, 64); SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0); Adds(c, a, 1.0f, 64); $ DataCopy(a, gx, 64); PipeBarrier<PIPE_ALL>(); Store(qc, c, gz, 64);",
         "", "SetFlag<HardEvent::V_MTE2>(0); WaitFlag<HardEvent::V_MTE2>(0);", "vector to load, write after read", frame=""),
    swap("position", "TPipe pipe; TBuf<TPosition::$> b; pipe.InitBuffer(b, 4096); LocalTensor<float> t = b.Get<float>(); DataCopyExtParams p{1, 8, 0, 0, 0}; DataCopyPadExtParams<float> e; DataCopyPad(t, gx, p, e);", "VECCALC", "VECIN", frame=""),
    swap("queue-leak", "LocalTensor<float> a = qa.AllocTensor<float>(); $", "", "qa.FreeTensor(a);"),
    swap("queue-state", "LocalTensor<float> a = qa.AllocTensor<float>(); $ a = qa.DeQue<float>(); qa.FreeTensor(a);", "", "qa.EnQue(a);", "DeQue on an empty queue"),
    swap("queue-state", "LocalTensor<float> a = qa.AllocTensor<float>(); DataCopy(a, gx, 64); qa.EnQue(a); $ LocalTensor<float> c = qc.AllocTensor<float>(); Adds(c, a, 1.0f, 64); $ Store(qc, c, gz, 64); qa.FreeTensor(a);",
         "", "if (a.GetSize() > 0 && qa.HasTensorInQue()) { a = qa.DeQue<float>(); }", "use before DeQue"),
    swap("queue-state", "LocalTensor<float> a = qb.AllocTensor<float>(); $ LocalTensor<float> b = qb.AllocTensor<float>(); qb.FreeTensor(b);", "", "qb.FreeTensor(a);", "all buffers in use"),
    swap("queue-state", f"{LOADED} $ Store(qc, c, gz, 64);", "qa.FreeTensor(a); Adds(c, a, 1.0f, 64);", "Adds(c, a, 1.0f, 64); qa.FreeTensor(a);", "use after FreeTensor"),
    swap("queue-state", "LocalTensor<float> a = qa.AllocTensor<float>(); qa.FreeTensor(a); $", "qa.FreeTensor(a);", "", "free twice"),
    swap("queue-state", "LocalTensor<float> a = qa.AllocTensor<float>(); $.FreeTensor(a);", "qb", "qa", "another queue"),
    swap("repeat", f"{LOADED} BlockReduceMax(c, a, $, 8, 1, 1, 0); {BARRIER} Duplicate(c, 0.0f, 64); {DONE}", "256", "16"),
    swap("repeat", f"{LOADED} UnaryRepeatParams r(1, 1, 8, 0); int k = $; Adds(c, a, 1.0f, 64, k, r); {DONE}", "256", "16", "would wrap"),
    swap("reserved-ub", "TPipe pipe; In qa; TBuf<TPosition::VECCALC> bt; pipe.InitBuffer(qa, 1, 4096); pipe.InitBuffer(bt, $); LocalTensor<float> a = Load(qa, gx, 64), w = bt.Get<float>(); CompareScalar(w[64].ReinterpretCast<uint8_t>(), a, 0.0f, CMPMODE::GT, 64); PipeBarrier<PIPE_V>(); Select(w, w[64].ReinterpretCast<uint8_t>(), a, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64); qa.FreeTensor(a);",
         "184352", "184320", frame=""),
    swap("scalar", f"{LOADED} LocalTensor<int32_t> i = a.ReinterpretCast<int32_t>(); ShiftRight(i, i, $, 64); {BARRIER} Duplicate(c, 0.0f, 64); {DONE}", "33", "32"),
    swap("stride", f"{LOADED} UnaryRepeatParams r($, 1, 8, 8); Adds(c, a, 1.0f, 64, 2, r); {DONE}", "0", "1"),
    swap("stride", f"{LOADED} UnaryRepeatParams r(1, 1, $, 8); Adds(c, a, 1.0f, 64, 2, r); {DONE}", "4", "8", "repeats overwrite each other"),
    swap("sync-all", "if (GetBlockIdx() == $) { return; } SyncAll();", "1", "7", blocks=2),
    swap("sync-all", "LocalTensor<int32_t> u = bt.Get<int32_t>(); GlobalTensor<int32_t> s; s.SetGlobalBuffer((__gm__ int32_t*)gw.GetPhyAddr(), $); SyncAll(s, u);", "8", "16", "workspace too small", blocks=2),
    swap("tmp-size", f"{LOADED} {TMP} Tanh(w, a, bt.GetWithOffset<uint8_t>($, 8192), 64); {BARRIER} Adds(c, w, 0.0f, 64); {DONE}", "224", "256"),
    swap("tmp-size", f"{LOADED} {TMP} const uint32_t shape[2] = {{8, 128}}; ReduceSum<float, Pattern::Reduce::AR>(c, a, bt.Get<uint8_t>($), shape, true); {BARRIER} Duplicate(c, 0.0f, 64); {DONE}", "2016", "2048", "pattern reduction"),
    swap("ub-budget", "TPipe pipe; TBuf<TPosition::VECCALC> b; pipe.InitBuffer(b, $);", "196609", "196608 - 256", frame=""),
    swap("ub-budget", "TPipe pipe; In q[13]; for (int i = 0; i < $; ++i) { pipe.InitBuffer(q[i], 5, 32); }", "13", "12", "buffers", frame=""),
    swap("uninitialised", "LocalTensor<float> c = qc.AllocTensor<float>(); Duplicate(c, 1.0f, $); Store(qc, c, gz, 64);", "63", "64"),
    swap("uninitialised", f"{TMP} LocalTensor<float> c = qc.AllocTensor<float>(); $ Adds(c, w, 1.0f, 64); Store(qc, c, gz, 64);", "", f"Duplicate(w, 1.0f, 64); {BARRIER}", "through an instruction"),
    swap("uninitialised", f"{TMP} $ float v = w.GetValue(3); if (v > 5.0f) {{ w.SetValue(0, v); }}", "", "Duplicate(w, 1.0f, 8); SetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);", "GetValue"),
    swap("uninitialised", f"LocalTensor<float> a = qa.AllocTensor<float>(), c = qc.AllocTensor<float>(); DataCopyExtParams p{{1, 20, 0, 0, 0}}; DataCopyPadExtParams<float> e{{$, 0, 3, 0.0f}}; DataCopyPad(a, gx, p, e); qa.EnQue(a); a = qa.DeQue<float>(); ReduceSum(c, a, bt.Get<float>(), 8); {BARRIER} Duplicate(c, 0.0f, 64); {DONE}", "false", "true", "padding in a sum"),
    swap("uninitialised", f"{LOADED} BlockReduceSum(c, bt.Get<float>(), 1, 64, 1, 1, 8); {BARRIER} $ {DONE}", "Adds(c[8], a, 0.0f, 56);", "Duplicate(c, 0.0f, 64);", "a tainted result of a block reduction"),
    swap("uninitialised", "$ LocalTensor<float> a = Load(qa, gw, 64), c = qc.AllocTensor<float>(); Adds(c, a, 1.0f, 64); Store(qc, c, gz, 64); qa.FreeTensor(a);",
         "", "LocalTensor<float> k = qc.AllocTensor<float>(); Duplicate(k, 1.0f, 64); Store(qc, k, gw, 64); SetFlag<HardEvent::MTE3_MTE2>(0); WaitFlag<HardEvent::MTE3_MTE2>(0);", "workspace nobody wrote"),
]  # fmt: skip


def source() -> str:
    text = [HEAD, HELPERS]
    for i, case in enumerate(CASES):
        for kind, body in (("broken", case.broken), ("mended", case.mended)):
            text.append(
                f"__aicore__ inline void {kind}_{i}(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR ws) {{\n"
                "    GlobalTensor<float> gx, gz, gw; gx.SetGlobalBuffer((__gm__ float*)x); gz.SetGlobalBuffer((__gm__ float*)z);\n"
                f"    gw.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(ws));\n    {case.frame}\n    {body}\n}}"
            )
    calls = " else ".join(
        f"if (TILING_KEY_IS({2 * i + k})) {{ {kind}_{i}(x, y, z, workspace); }}"
        for i in range(len(CASES))
        for k, kind in enumerate(("broken", "mended"))
    )
    text.append(
        'extern "C" __global__ __aicore__ void rules(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {\n'
        "    REGISTER_TILING_DEFAULT(TestTiling); GET_TILING_DATA(t, tiling); KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);\n"
        f"    {calls}\n}}\n"
    )
    return "\n".join(text)


def run(key, blocks, seed=0):
    x, z = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    return launch(source(), "rules", [x, x], [z], key=key, block_dim=blocks, seed=seed, workspace=4096)


IDS = [f"{c.rule}-{c.name}" if c.name else c.rule for c in CASES]


@pytest.mark.parametrize("index", range(len(CASES)), ids=IDS)
def test_rule(index):
    case = CASES[index]
    with pytest.raises(TwinViolation) as error:
        run(2 * index, case.blocks)
    assert error.value.rule == case.rule, str(error.value)
    assert error.value.code == "AF406"
    run(2 * index + 1, case.blocks)


def test_reports_do_not_depend_on_the_order_of_blocks():
    for rule, blocks in (("block-overlap", 4), ("cross-block-read", 2)):
        index = next(i for i, c in enumerate(CASES) if c.rule == rule)
        messages = set()
        for seed in range(6):
            with pytest.raises(TwinViolation) as error:
                run(2 * index, blocks, seed)
            messages.add(str(error.value))
        assert len(messages) == 1, messages


ADD = (
    HEAD
    + HELPERS
    + """
extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {
    REGISTER_TILING_DEFAULT(TestTiling);
    GET_TILING_DATA(t, tiling);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    if (TILING_KEY_IS(1)) {
        TPipe pipe; In qa; Out qc; pipe.InitBuffer(qa, 1, 4096); pipe.InitBuffer(qc, 1, 4096);
        GlobalTensor<float> gx, gz; gx.SetGlobalBuffer((__gm__ float*)x); gz.SetGlobalBuffer((__gm__ float*)z);
        LocalTensor<float> a = Load(qa, gx, 64), c = qc.AllocTensor<float>();
        Adds(c, a, 1.0f, t.n);
        Store(qc, c, gz[GetBlockIdx() * 64], 64);
        qa.FreeTensor(a);
    }
}
"""
)


def add(**kw):
    x, z = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    kw = {"n": 64, **kw}
    return launch(ADD, "add", [x, x], [z], **kw)


def test_overlap_of_blocks_that_run_at_once():
    """The kernel above has an atomic, so its blocks run in turn; these run in parallel, all 16 into the same bytes."""
    text = ADD.replace("gz[GetBlockIdx() * 64]", "gz[GetBlockIdx() % 2 * 60]")
    so = build({"kernel.cpp": text, "tiling.h": TILING_H}, "add")
    x, z = np.ones(64, np.float32), np.zeros(1024, np.float32)
    args = [(x.ctypes.data, x.nbytes, "in")] * 2 + [(z.ctypes.data, z.nbytes, "out")]
    messages = set()
    for seed in range(8):
        with pytest.raises(TwinViolation) as error:
            load(so).launch(args, tiling(64), 1, block_dim=16, seed=seed, threads=4)
        messages.add(str(error.value))
    everyone = ", ".join(str(i) for i in range(0, 16, 2))
    assert len(messages) == 1 and f"blocks {everyone} write" in messages.pop()


def test_launch_rules():
    add(block_dim=16)
    for rule, kw in {
        "block-count": {"block_dim": 49},
        "tiling-key": {"key": 2},
        "tiling-size": {"tiling_bytes": bytes(24)},
    }.items():
        with pytest.raises(TwinViolation) as error:
            add(**kw)
        assert error.value.rule == rule


def test_hard_sync_all_needs_its_kernel_type():
    text = ADD.replace("TPipe pipe;", "SyncAll(); TPipe pipe;", 1)
    x, z = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    with pytest.raises(TwinViolation, match="KERNEL_TYPE_MIX_AIV_1_0") as error:
        launch(text, "add", [x, x], [z], n=64)
    assert error.value.rule == "sync-all"
    launch(text.replace("AIV_ONLY", "MIX_AIV_1_0"), "add", [x, x], [z], n=64, block_dim=3)


def test_violation_names_call_block_and_line():
    with pytest.raises(TwinViolation) as error:
        add(n=1100)
    assert "Adds" in error.value.message
    assert error.value.block == 0
    assert error.value.where is not None and error.value.where.startswith("kernel.cpp:")
    line = int(error.value.where.split(":")[1])
    assert "Adds" in ADD.splitlines()[line - 1]


def test_wrong_number_of_arguments():
    kernel = load(build({"kernel.cpp": ADD, "tiling.h": TILING_H}, "add"))
    x = np.ones(64, np.float32)
    with pytest.raises(TypeError, match="5 parameters"):
        kernel.launch([(x.ctypes.data, x.nbytes, "in")], bytes(16))
    with pytest.raises(ValueError, match="argument kind"):
        kernel.launch([(x.ctypes.data, x.nbytes, "input")], bytes(16))


def test_every_rule_is_listed_and_tested():
    pattern = re.compile(r'(?:fail\(|put\(\*result, )"([a-z0-9-]+)"')
    used = {
        m
        for p in [*RUNTIME.glob("*.cpp"), *RUNTIME.glob("*.h"), *INCLUDE.rglob("*.h")]
        for m in pattern.findall(p.read_text())
    }
    assert used - {"abi", "params"} == set(RULES)  # those two are errors of the caller, not of the kernel
    tested = {c.rule for c in CASES} | {"block-count", "tiling-key", "tiling-size"}
    assert tested == set(RULES)
    page = (Path(__file__).parents[2] / "docs" / "twin.md").read_text()
    for rule, meaning in RULES.items():
        assert f"| `{rule}` | {meaning} |" in page


def test_vector_order_is_kept_by_hardware_on_3510():
    text = ADD.replace("Adds(c, a, 1.0f, t.n);", "Adds(c, a, 1.0f, t.n); Muls(c, c, 2.0f, t.n);")
    x, z = np.ones(1024, np.float32), np.zeros(64, np.float32)
    with pytest.raises(TwinViolation) as error:
        launch(text, "add", [x, x], [z], n=64, arch=2201)
    assert error.value.rule == "pipe-hazard"
    launch(text, "add", [x, x], [z], n=64, arch=3510)
    assert (z == 4).all()


def test_cases_differ():
    assert all(c.broken != c.mended for c in CASES)
