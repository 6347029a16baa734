"""H33 to H37: the numbers of the cost table. A difference of two loop counts takes launch and start out of a time."""

from __future__ import annotations

from dataclasses import dataclass

from torchair_autofuse.probe.record import Measure, Point
from torchair_autofuse.soc.chip import Chip

Row = tuple[str, float, float, str]
Seconds = tuple[float, ...]
ALL_CORES = 0
"""As ``Point.blocks``: as many as the device has vector cores."""
BIG, SMALL = 96 << 20, 4 << 20
"""f32 elements of a tensor that no L2 holds (384 MB), and of one that every L2 holds (16 MB)."""

# One block of n float in, one instruction, out.
_SMALL = """    TPipe pipe;
    TQue<TPosition::VECIN, 1> qa;
    TQue<TPosition::VECOUT, 1> qc;
    pipe.InitBuffer(qa, 1, 1024);
    pipe.InitBuffer(qc, 1, 1024);
    const uint32_t core = static_cast<uint32_t>(GetBlockIdx());
    LocalTensor<float> a = qa.AllocTensor<float>();
    In(a, Gm<float>(x)[core * n], n);
    qa.EnQue(a);
    a = qa.DeQue<float>();
    LocalTensor<float> c = qc.AllocTensor<float>();
    Adds(c, a, 1.0f, n);
    qa.FreeTensor(a);
    qc.EnQue(c);
    c = qc.DeQue<float>();
    Out(Gm<float>(out)[core * n], c, n);
    qc.FreeTensor(c);"""

# The blocks meet m times.
_MEETINGS = """    TPipe pipe;
    for (uint32_t i = 0; i < m; ++i) {
        SyncAll();
    }"""

# m tiles of n float per core, one after the other in GM and around again.
_LOADS = """    TPipe pipe;
    TQue<TPosition::VECIN, 1> qa;
    pipe.InitBuffer(qa, 2, 65536);
    const uint32_t core = static_cast<uint32_t>(GetBlockIdx()), tiles = ELEMENTS / n;
    for (uint32_t i = 0; i < m; ++i) {
        LocalTensor<float> a = qa.AllocTensor<float>();
        In(a, Gm<float>(x)[(core * m + i) % tiles * n], n);
        qa.EnQue(a);
        a = qa.DeQue<float>();
        qa.FreeTensor(a);
    }"""
_STORES = """    TPipe pipe;
    TBuf<TPosition::VECOUT> buffer;
    pipe.InitBuffer(buffer, 65536);
    LocalTensor<float> c = buffer.Get<float>();
    Duplicate(c, 1.0f, n);
    Follow<HardEvent::V_MTE3>(pipe);
    const uint32_t core = static_cast<uint32_t>(GetBlockIdx()), cores = static_cast<uint32_t>(GetBlockNum());
    const uint32_t tiles = ELEMENTS / n / cores;
    for (uint32_t i = 0; i < m; ++i) {
        PipeBarrier<PIPE_MTE3>();
        Out(Gm<float>(out)[(core * tiles + i % tiles) * n], c, n);
    }"""

# m copies of 64 blocks of n bytes, GAP bytes apart in GM.
_BLOCK_LOADS = """    TPipe pipe;
    TQue<TPosition::VECIN, 1> qa;
    pipe.InitBuffer(qa, 2, 65536);
    const uint32_t core = static_cast<uint32_t>(GetBlockIdx()), step = 64 * (n + GAP), spots = ELEMENTS / step * 4;
    const DataCopyExtParams blocks(64, n, GAP, 0, 0);
    const DataCopyPadExtParams<uint8_t> pad(false, 0, 0, 0);
    for (uint32_t i = 0; i < m; ++i) {
        LocalTensor<uint8_t> a = qa.AllocTensor<uint8_t>();
        DataCopyPad(a, Gm<uint8_t>(x)[(core * m + i) % spots * step], blocks, pad);
        qa.EnQue(a);
        a = qa.DeQue<uint8_t>();
        qa.FreeTensor(a);
    }"""
_BLOCK_STORES = """    TPipe pipe;
    TBuf<TPosition::VECOUT> buffer;
    pipe.InitBuffer(buffer, 65536);
    LocalTensor<uint8_t> c = buffer.Get<uint8_t>();
    Duplicate(c.ReinterpretCast<float>(), 1.0f, 16384);
    Follow<HardEvent::V_MTE3>(pipe);
    const uint32_t core = static_cast<uint32_t>(GetBlockIdx()), cores = static_cast<uint32_t>(GetBlockNum());
    const uint32_t step = 64 * n, spots = ELEMENTS / step * 4 / cores;
    const DataCopyExtParams blocks(64, n, 0, 0, 0);
    for (uint32_t i = 0; i < m; ++i) {
        PipeBarrier<PIPE_MTE3>();
        DataCopyPad(Gm<uint8_t>(out)[(core * spots + i % spots) * step], c, blocks);
    }"""

# m times one instruction on n float.
_CHAIN = """    TPipe pipe;
    TBuf<TPosition::VECCALC> ba, bc, bt;
    pipe.InitBuffer(ba, 16384);
    pipe.InitBuffer(bc, 16384);
    pipe.InitBuffer(bt, 65536);
    LocalTensor<float> a = ba.Get<float>(), c = bc.Get<float>();
    LocalTensor<uint8_t> t = bt.Get<uint8_t>();
    Duplicate(a, 0.5f, n);
    Duplicate(t.ReinterpretCast<int32_t>(), 0, n);
    for (uint32_t i = 0; i < m; ++i) {
        PipeBarrier<PIPE_V>();
        CALL
    }"""
_CALLS = {
    "simple": "Add(c, a, a, n);",
    "scalar": "Adds(c, a, 1.0f, n);",
    "cast": "Cast(c.ReinterpretCast<half>(), a, RoundMode::CAST_RINT, n);",
    "fill": "Duplicate(c, 1.0f, n);",
    "compare": "CompareScalar(c.ReinterpretCast<uint8_t>(), a, 1.0f, CMPMODE::LT, n);",
    "select": "Select(c, t, a, a, SELMODE::VSEL_TENSOR_TENSOR_MODE, n);",
    "transcendental": "Exp(c, a, n);",
    "divide": "Div(c, a, a, n);",
    "tanh": "Tanh(c, a, t, n);",
    "sigmoid": "Sigmoid(c, a, t, n);",
    "api": "Erf(c, a, t, n);",
    "gather": "Gather(c, a, t.ReinterpretCast<uint32_t>(), 0, n);",
}
_ROUNDS = (500, 2500)
_LENGTHS = (1024, 4096)
_COPIES = (32, 160)
_TILES = (1024, 8192)
_BLOCKS = (20, 100)


def _per_round(seconds: Seconds, pair: int, rounds: tuple[int, int], chip: Chip) -> float:
    """Cycles of a round, of the points 2 * pair and the one behind it."""
    return (seconds[2 * pair + 1] - seconds[2 * pair]) * chip.clock_mhz * 1e6 / (rounds[1] - rounds[0])


def _rate(rate: tuple[float, float], cores: int) -> float:
    return rate[0] + rate[1] / cores


def _launch(seconds: Seconds, blocks: tuple[int, ...], chip: Chip) -> list[Row]:
    return [("launch_us, launches in a row from the host", seconds[0] * 1e6, chip.cost.launch_us, "us")]


def _head(seconds: Seconds, blocks: tuple[int, ...], chip: Chip) -> list[Row]:
    one, many = (s * chip.clock_mhz * 1e6 for s in seconds)
    per_core = (many - one) / max(1, blocks[1] - blocks[0])
    c = chip.cost
    fixed = c.kernel_head + c.small_load_head[0] + c.store_head
    return [
        ("kernel_head + small_load_head + store_head, launch included", one - per_core, fixed, "cycles"),
        ("small_load_head, per core", per_core, c.small_load_head[1], "cycles"),
    ]


def _sync(seconds: Seconds, blocks: tuple[int, ...], chip: Chip) -> list[Row]:
    return [("sync, without the exchange", _per_round(seconds, 0, _COPIES, chip), chip.cost.sync, "cycles")]


@dataclass(frozen=True)
class _Tiles:
    """Copies of two sizes: bytes per cycle and core, cycles per copy."""

    name: str

    def __call__(self, seconds: Seconds, blocks: tuple[int, ...], chip: Chip) -> list[Row]:
        short, long = (_per_round(seconds, k, _COPIES, chip) for k in (0, 1))
        slope = (long - short) / (4 * (_TILES[1] - _TILES[0]))
        c = chip.cost
        rates = {
            "load": (_rate(c.load_rate, blocks[0]), c.load_copy),
            "l2": (c.l2_rate, c.load_copy),
            "store": (_rate(c.store_rate, blocks[0]), c.store_copy),
        }
        rate, copy = rates[self.name]
        measured = 1 / slope if slope > 0 else float("inf")
        return [
            (f"{self.name}_rate on {blocks[0]} cores", measured, rate, "bytes/cycle/core"),
            (f"{self.name}: per copy", short - 4 * _TILES[0] * slope, copy, "cycles"),
        ]


@dataclass(frozen=True)
class _Blocks:
    """Copies of 64 blocks of ``width`` bytes: cycles per block, on one core and on all."""

    store: bool
    width: int
    gap: int = 0

    def __call__(self, seconds: Seconds, blocks: tuple[int, ...], chip: Chip) -> list[Row]:
        what = f"{'store' if self.store else 'load'} of {self.width} bytes{f', gaps of {self.gap}' if self.gap else ''}"
        rows = []
        for pair, cores in ((0, blocks[0]), (1, blocks[2])):
            measured = _per_round(seconds, pair, _BLOCKS, chip) / 64
            table = self._stored(chip, cores) if self.store else self._loaded(chip, cores)
            rows.append((f"{what} on {cores} cores, per block", measured, table, "cycles"))
        return rows

    def _loaded(self, chip: Chip, cores: int) -> float:
        c = chip.cost
        bytes_ = c.short_load_bytes if self.width < chip.block_bytes else self.width
        return bytes_ / _rate(c.load_rate, cores) + c.load_gap * self.gap + c.load_copy / 64

    def _stored(self, chip: Chip, cores: int) -> float:
        c = chip.cost
        if self.width < chip.block_bytes:
            share = 1.0 if cores > 1 else c.short_store_alone
            return share * (c.short_store[0] - c.short_store[1] * self.width)
        if self.width <= c.uneven_store_bytes:
            return self.width / c.uneven_store_rate
        return self.width / _rate(c.store_rate, cores) + c.uneven_store


@dataclass(frozen=True)
class _Instruction:
    """One kind of instruction: cycles = k * elements + b."""

    kind: str

    def __call__(self, seconds: Seconds, blocks: tuple[int, ...], chip: Chip) -> list[Row]:
        short, long = (_per_round(seconds, k, _ROUNDS, chip) for k in (0, 1))
        slope = (long - short) / (_LENGTHS[1] - _LENGTHS[0])
        k, _, b = getattr(chip.cost.vector, self.kind)
        return [
            (f"{self.kind}: k", slope, k, "cycles/element"),
            (f"{self.kind}: b, barrier included", short - slope * _LENGTHS[0], b, "cycles"),
        ]


def launches() -> tuple[Measure, ...]:
    """The time of a launch."""
    return (Measure("launch", _SMALL, (Point(64, 1, 1, 200),), _launch, 64, 64),)


def heads() -> tuple[Measure, ...]:
    """What a kernel takes once."""
    points = (Point(64, 1, 1, 200), Point(64, 1, ALL_CORES, 200))
    meetings = tuple(Point(64, m, ALL_CORES, 10) for m in _COPIES)
    return (
        Measure("head", _SMALL, points, _head, 64 * 128, 64 * 128),
        Measure("sync", _MEETINGS, meetings, _sync, 64, 64, all_cores=True),
    )


def copies(big: int = BIG, small: int = SMALL) -> tuple[Measure, ...]:
    """Copies by all cores in tiles, and of blocks by one core and by all. ``big``, ``small``: f32 elements."""
    tiles = tuple(Point(n, m, ALL_CORES, 10) for n in _TILES for m in _COPIES)
    loads, stores = _LOADS.replace("ELEMENTS", f"{big}u"), _STORES.replace("ELEMENTS", f"{big}u")
    made = [
        Measure("loads", loads, tiles, _Tiles("load"), big, 64),
        Measure("loads from L2", _LOADS.replace("ELEMENTS", f"{small}u"), tiles, _Tiles("l2"), small, 64),
        Measure("stores", stores, tiles, _Tiles("store"), 64, big),
    ]
    for width, gap in ((4, 0), (100, 0), (1004, 0), (512, 128)):
        body = _BLOCK_LOADS.replace("GAP", f"{gap}u").replace("ELEMENTS", f"{big}u")
        points = tuple(Point(width, m, cores, 5) for cores in (1, ALL_CORES) for m in _BLOCKS)
        made.append(Measure(f"loads of {width} bytes", body, points, _Blocks(False, width, gap), big, 64))
        if not gap:
            body = _BLOCK_STORES.replace("ELEMENTS", f"{big}u")
            made.append(Measure(f"stores of {width} bytes", body, points, _Blocks(True, width), 64, big))
    return tuple(made)


def instructions() -> tuple[Measure, ...]:
    """Chains of one instruction on one core."""
    points = tuple(Point(n, m, 1, 5) for n in _LENGTHS for m in _ROUNDS)
    return tuple(
        Measure(kind, _CHAIN.replace("CALL", call), points, _Instruction(kind), 64, 64) for kind, call in _CALLS.items()
    )
