"""Ascend C text of the probes: the prelude, bodies with queues, and the entry that runs one case of several.

Direct launches have no tiling macros, so the case number and its sizes lie in a small buffer of their own, with the
place where the blocks of a kernel meet behind them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from torchair_autofuse.probe.record import Case

ENTRY = "afprobe"
CPP = {
    "float32": "float", "float16": "half", "bfloat16": "bfloat16_t", "int8": "int8_t", "uint8": "uint8_t",
    "int16": "int16_t", "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t",
}  # fmt: skip

_PRELUDE = """#include "kernel_operator.h"
#ifdef TWIN_KERNEL_OPERATOR_H
#define AFPROBE_CORES __aicore__
#define AFPROBE_BEGIN(tiling) KERNEL_TASK_TYPE_DEFAULT({kind})
#else
#define AFPROBE_CORES {cores}
#if {meets} && __NPU_ARCH__ == 2201
#define AFPROBE_BEGIN(tiling) AscendC::SetSyncBaseAddr(((__gm__ uint64_t*)tiling)[2])
#else
#define AFPROBE_BEGIN(tiling)
#endif
#endif
using namespace AscendC;

template <HardEvent kEvent>
__aicore__ inline void Follow(TPipe& pipe)
{{
    const TEventID id = pipe.FetchEventID(kEvent);
    SetFlag<kEvent>(id);
    WaitFlag<kEvent>(id);
}}

template <typename T>
__aicore__ inline GlobalTensor<T> Gm(GM_ADDR address)
{{
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer((__gm__ T*)address);
    return tensor;
}}

template <typename T>
__aicore__ inline void In(const LocalTensor<T>& to, const GlobalTensor<T>& from, uint32_t count)
{{
    const DataCopyExtParams one(1, count * sizeof(T), 0, 0, 0);
    const DataCopyPadExtParams<T> pad(false, 0, 0, static_cast<T>(0));
    DataCopyPad(to, from, one, pad);
}}

template <typename T>
__aicore__ inline void Out(const GlobalTensor<T>& to, const LocalTensor<T>& from, uint32_t count)
{{
    const DataCopyExtParams one(1, count * sizeof(T), 0, 0, 0);
    DataCopyPad(to, from, one);
}}
"""


def elementwise(code: str, source: str, target: str, stored: str = "n", buffer: int = 8192) -> str:
    """A body that loads n elements of x as ``a`` and of y as ``b`` (numpy type ``source``), runs ``code`` and stores
    ``stored`` elements of ``c`` (``target``). ``code`` also sees ``t``, 32 KB of temporary bytes, and ``pipe``.
    ``buffer``: bytes of a and of b; c has twice as many."""
    s, t = CPP[source], CPP[target]
    return f"""    TPipe pipe;
    TQue<TPosition::VECIN, 1> qa, qb;
    TQue<TPosition::VECOUT, 1> qc;
    TBuf<TPosition::VECCALC> bt;
    pipe.InitBuffer(qa, 1, {buffer});
    pipe.InitBuffer(qb, 1, {buffer});
    pipe.InitBuffer(qc, 1, {2 * buffer});
    pipe.InitBuffer(bt, 32768);
    LocalTensor<{s}> a = qa.AllocTensor<{s}>(), b = qb.AllocTensor<{s}>();
    In(a, Gm<{s}>(x), n);
    In(b, Gm<{s}>(y), n);
    qa.EnQue(a);
    qb.EnQue(b);
    a = qa.DeQue<{s}>();
    b = qb.DeQue<{s}>();
    LocalTensor<{t}> c = qc.AllocTensor<{t}>();
    LocalTensor<uint8_t> t = bt.Get<uint8_t>();
    {{
        {code}
    }}
    qa.FreeTensor(a);
    qb.FreeTensor(b);
    qc.EnQue(c);
    c = qc.DeQue<{t}>();
    Out(Gm<{t}>(out), c, {stored});
    qc.FreeTensor(c);"""


def source(bodies: Sequence[str], *, all_cores: bool = False) -> str:
    """The kernel whose case k runs ``bodies[k]``. ``all_cores``: its blocks run at once, for SyncAll."""
    cores, kind = ("__mix__(0, 1)", "KERNEL_TYPE_MIX_AIV_1_0") if all_cores else ("__vector__", "KERNEL_TYPE_AIV_ONLY")
    text = [_PRELUDE.format(cores=cores, kind=kind, meets=int(all_cores))]
    for k, body in enumerate(bodies):
        text.append(
            f"__aicore__ inline void Case{k}(GM_ADDR x, GM_ADDR y, GM_ADDR out, GM_ADDR workspace, uint32_t n, "
            f"uint32_t m)\n{{\n{body}\n}}\n"
        )
    text.append(f"""extern "C" __global__ AFPROBE_CORES void {ENTRY}(GM_ADDR x, GM_ADDR y, GM_ADDR out,
                                                   GM_ADDR workspace, GM_ADDR tiling)
{{
    AFPROBE_BEGIN(tiling);
    const uint32_t which = ((__gm__ uint32_t*)tiling)[0];
    const uint32_t n = ((__gm__ uint32_t*)tiling)[1];
    const uint32_t m = ((__gm__ uint32_t*)tiling)[2];
""")
    text += [f"    if (which == {k}) {{ Case{k}(x, y, out, workspace, n, m); }}" for k in range(len(bodies))]
    return "\n".join([*text, "}", ""])


def tiling(which: int, n: int, m: int) -> bytes:
    """The buffer that the entry reads; a device appends the meeting place (8 bytes)."""
    return struct.pack("<IIII", which, n, m, 0)


def source_of(cases: Sequence[Case], *, all_cores: bool = False) -> str:
    """:func:`source` of the bodies of cases."""
    return source([c.body for c in cases], all_cores=all_cores)
