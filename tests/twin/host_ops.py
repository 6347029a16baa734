"""Fused ops whose host code is compiled and run: kernels of every template, and ops of captured graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from concat_kernels import concat_text
from gather_kernels import BAG, BERT
from lane_kernels import STATISTICS, stack
from permuted_kernels import permuted_kernel

from benchmarks.captured import case
from torchair_autofuse import opdef
from torchair_autofuse.codegen.op_host import op_host_cpp
from torchair_autofuse.generated import GeneratedOp
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.soc.chip import Chip, chip, soc_names
from torchair_autofuse.twin.op_host import Platform

SOCS = ("Ascend910B1", "Ascend950PR_9599")
GRAPHS = ("bert", "convnext", "dcn_v2", "llama_bf16", "ce_focal_loss", "gn_silu", "quant_chain")
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
    "kept rows": """\
kernel k(in x: f32[3, s0, 4, 32], in c: f32[3, s0, 64], in b: f32[4, 32], out y: f32[3, s0, 4, 32]) where s0 = x.1
nest n0 [a0: 3, a1: 4, a2: s0, a3: 32]
  v0: f32 = load x[128*s0*a0 + 32*a1 + 128*a2 + a3]
  v1: f32 = load c[64*s0*a0 + 64*a2 + a3]
  v2: f32 = exp(v1)
  v3: f32 = load b[32*a1 + a3]
  v4: f32 = mul(v0, v2)
  v5: f32 = add(v4, v3)
  store y[128*s0*a0 + 32*a1 + 128*a2 + a3] = v5
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
    "softmax": """\
kernel k(in x: f32[s0, s1], out y: f32[s0, s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  x: f32 = load x[s1*a0 + a1]
  m, s: f32, f32 = reduce maxsumexp(x) over (a1)
  d: f32 = sub(x, m)
  e: f32 = exp(d)
  y: f32 = div(e, s)
  store y[s1*a0 + a1] = y
""",
    "no symbols": """\
kernel k(in x: f32[1048576], out y: f32[])
nest n0 [a0: 1048576]
  v0: f32 = load x[a0]
  v1: f32 = mul(v0, v0)
  t: f32 = reduce sum(v1) over (a0)
  v2: f32 = sqrt(t)
  store y[0] = v2
""",
    "columns of one size": """\
kernel k(in x: bf16[8, 50, 320], out y: bf16[8, 320])
nest n0 [a0: 8, a1: 50, a2: 320]
  v0: bf16 = load x[16000*a0 + 320*a1 + a2]
  v1: f32 = cast(v0, rint)
  t: f32 = reduce sum(v1) over (a1)
  y: bf16 = cast(t, rint)
  store y[320*a0 + a2] = y
""",
    "side by side": concat_text(["s0", 0], 1, ["s1", 17, "s2"], bodies=("copy", "bias", "neg")),
    "end to end": concat_text([0, 3], 0, ["s0", "s1", 5], bodies=("copy", "bias")),
    "few rows": concat_text([3, 0], 1, ["s1", 5, "s2"], "f32", bodies=("copy", "bias"), outputs=2),
    "gather": BERT,
    "bag": BAG,
    "interleave": stack(3, "f16"),
    "statistics": STATISTICS,
    "permuted": permuted_kernel(27)[0],
    "turned": permuted_kernel(37)[0],
    "every other": """\
kernel k(in x: f32[s0], out y: f32[floor(s0/2 - 1/2) + 1]) where s0 = x.0
nest n0 [a0: floor(s0/2 - 1/2) + 1]
  v0: f32 = load x[2*a0]
  v1: f32 = neg(v0)
  store y[a0] = v1
""",
}
OTHER_CHIP = ("flat", "panels", "columns", "sums", "softmax", "few rows", "kept rows", "turned")
"""Kernels that are also made for the second chip."""
_EDGES = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 997, 4095, 4096, 4097, 65537)
MOST = 2**37
"""Elements of a tensor: more than the memory of any chip holds."""


@dataclass(frozen=True)
class HostCase:
    """A fused op, its definition, and the files its host code and kernel are built from."""

    name: str
    made: Definition
    files: Mapping[str, str]

    @classmethod
    def of(cls, name: str, generated: GeneratedOp, target: Chip) -> HostCase:
        made = Definition.of(opdef.build(generated, target))
        sources = {"kernel.cpp": generated.text.kernel_cpp, "tiling.h": generated.text.tiling_h}
        return cls(name, made, {**sources, "op_host.cpp": op_host_cpp(made.host_plan)})

    def inputs(self, symbols: Mapping[str, int]) -> list[tuple[int, ...]] | None:
        """Input shapes for these sizes; None where a tensor would be too large, or have a negative dim."""
        shapes = self.made.shapes(symbols)
        for shape in shapes.values():
            count = 1
            for n in shape:
                count *= max(n, 1)
            if count > MOST or min(shape, default=0) < 0:
                return None
        return [shapes[p.name] for p in self.made.kernel.inputs]

    def sizes(self, rng: random.Random, most: int = MOST) -> dict[str, int]:
        """Sizes of the symbols: edges of blocks, tiles and counts, and anything, up to ``most``."""

        def one() -> int:
            return rng.choice(_EDGES) if rng.random() < 0.5 else int(2 ** rng.uniform(0, most.bit_length() - 1))

        return {s.name: min(one(), most) for s in self.made.kernel.symbols}

    def random(self, rng: random.Random, count: int) -> Iterator[tuple[dict[str, int], list[tuple[int, ...]]]]:
        """``count`` times sizes with the input shapes they give."""
        while count > 0:
            symbols = self.sizes(rng, 2 ** rng.choice((8, 12, 16, 24, 33, 37)))
            inputs = self.inputs(symbols)
            if inputs is not None:
                count -= 1
                yield symbols, inputs


def captured(target: Chip) -> Iterator[HostCase]:
    """Ops of dynamic captured graphs, one of each template and number of symbols."""
    seen = set()
    for graph in GRAPHS:
        for generated in case(f"{graph}__dynamic__g0").result.generated:
            kind = (generated.schedule.template, len(generated.schedule.kernel.symbols))
            if kind not in seen:
                seen.add(kind)
                yield HostCase.of(f"{graph} {generated.op_type}", generated, target)


def platforms(target: Chip) -> list[Platform]:
    """What the chips of an architecture report; and with few or an odd number of cores, of which a user may have it."""
    chips = [c for c in map(chip, soc_names()) if isinstance(c, Chip) and c.npu_arch == target.npu_arch]
    found = list(dict.fromkeys(map(Platform.of, chips)))
    return [*found, *(Platform(n, found[0].ub_bytes, found[0].lib_workspace_bytes) for n in (1, 2, 7))]
