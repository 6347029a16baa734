"""Small fused ops that together use every helper of op_templates/helpers: what a compiler of CANN is tried with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchair_autofuse.codegen.kernel import KernelText, generate
from torchair_autofuse.codegen.names import camel
from torchair_autofuse.generated import GeneratedOp
from torchair_autofuse.loop.parser import parse
from torchair_autofuse.lower.finish import Lowered, content_digest
from torchair_autofuse.opdef.build import build
from torchair_autofuse.opdef.files import texts
from torchair_autofuse.schedule.choose import schedule
from torchair_autofuse.schedule.schedule import Schedule
from torchair_autofuse.soc.chip import DEFAULT_SOC, Chip, chip

KERNELS = {
    "columns and rows": """
kernel outer(in x: f16[s0, 12, s1, 64], in mask: bool[s0, 1, s1, 64], in gain: f32[12, 1, 1],
  out y: f16[s0, 12, s1, 64]) where s0 = x.0, s1 = x.2
nest n0 [a0: s0, a1: 12, a2: s1, a3: 64]
  v0: f16 = load x[768*s1*a0 + 64*s1*a1 + 64*a2 + a3]
  v1: f32 = cast(v0, rint)
  v2: bool = load mask[64*s1*a0 + 64*a2 + a3]
  v3: f32 = load gain[a1]
  c0: f32 = const 0.0
  v4: f32 = mul(v1, v3)
  v5: f32 = select(v2, v4, c0)
  v6: f16 = cast(v5, rint)
  store y[768*s1*a0 + 64*s1*a1 + 64*a2 + a3] = v6
""",
    "softmax": """
kernel softmax(in x: f32[s0, s1], out y: f32[s0, s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  v0: f32 = load x[s1*a0 + a1]
  m, s: f32, f32 = reduce maxsumexp(v0) over (a1)
  v1: f32 = sub(v0, m)
  v2: f32 = exp(v1)
  v3: f32 = div(v2, s)
  store y[s1*a0 + a1] = v3
""",
    "calls": """
kernel calls(in x: f32[s0], in z: f32[s0], out y: f32[s0]) where s0 = x.0
nest n0 [a0: s0]
  v0: f32 = load x[a0]
  v1: f32 = load z[a0]
  v2: f32 = tanh(v0)
  v3: f32 = erf(v1)
  v4: f32 = sin(v2)
  v5: f32 = pow(v3, v4)
  v6: f32 = fmod(v5, v1)
  store y[a0] = v6
""",
    "split reduction": """
kernel split(in x: f32[1048576], out y: f32[])
nest n0 [a0: 1048576]
  v0: f32 = load x[a0]
  v1: f32 = mul(v0, v0)
  t: f32 = reduce sum(v1) over (a0)
  v2: f32 = sqrt(t)
  store y[0] = v2
""",
    "short rows": """
kernel short(in x: f32[s0, 7], out y: f32[s0]) where s0 = x.0
nest n0 [a0: s0, a1: 7]
  v0: f32 = load x[7*a0 + a1]
  t: f32 = reduce max(v0) over (a1)
  store y[a0] = t
""",
    "concat": """
kernel beside(in x0: f16[s0, 16], in x1: f16[s0, 17], out y: f16[s0, 33]) where s0 = x0.0
nest n0 [a0: s0, a1: 16]
  v: f16 = load x0[16*a0 + a1]
  store y[33*a0 + a1] = v
nest n1 [a0: s0, a1: 17]
  v: f16 = load x1[17*a0 + a1]
  store y[33*a0 + a1 + 16] = v
""",
    "lookup": """
kernel lookup(in x: f32[s0, s1], in at: i64[s2], out y: f32[s2, s1]) where s0 = x.0, s1 = x.1, s2 = at.0
nest n0 [a0: s2, a1: s1]
  i: i64 = load at[a0]
  v: f32 = load x[s1*i + a1] where -s0 <= i < s0
  w: f32 = add(v, v)
  store y[s1*a0 + a1] = w
""",
    "transpose": """
kernel turned(in x: f16[96, 64], in z: f16[64, 96], out y: f16[64, 96])
nest n0 [a0: 64, a1: 96]
  v0: f16 = load x[64*a1 + a0]
  v1: f16 = load z[96*a0 + a1]
  v2: f32 = cast(v0, rint)
  v3: f32 = cast(v1, rint)
  v4: f32 = add(v2, v3)
  v5: f16 = cast(v4, rint)
  store y[96*a0 + a1] = v5
""",
    "every second": """
kernel second(in x: f32[2*s0], in n: f32[s0], out y: f32[s0]) where s0 = n.0
nest n0 [a0: s0]
  v: f32 = load x[2*a0 + 1]
  store y[a0] = v
""",
    "every fifth": """
kernel fifth(in x: f32[5*s0], in n: f32[s0], out y: f32[s0]) where s0 = n.0
nest n0 [a0: s0]
  v: f32 = load x[5*a0 + 2]
  store y[a0] = v
""",
    "interleaved": """
kernel stack(in x0: f32[s0], in x1: f32[s0], out y: f32[s0, 2]) where s0 = x0.0
nest n0 [a0: s0]
  x0: f32 = load x0[a0]
  x1: f32 = load x1[a0]
  store y[2*a0] = x0
  store y[2*a0 + 1] = x1
""",
    "product of rows": """
kernel product(in x: f32[s0, 300], out y: f32[s0]) where s0 = x.0
nest n0 [a0: s0, a1: 300]
  v0: f32 = load x[300*a0 + a1]
  t: f32 = reduce prod(v0) over (a1)
  store y[a0] = t
""",
    "transpose of short rows": """
kernel lanes(in x: f32[s0, 4], in z: f32[4, s0], out y: f32[4, s0], out w: f32[s0, 4]) where s0 = x.0
nest n0 [a0: 4, a1: s0]
  v0: f32 = load x[4*a1 + a0]
  v1: f32 = load z[s0*a0 + a1]
  v2: f32 = add(v0, v1)
  store y[s0*a0 + a1] = v2
  store w[4*a1 + a0] = v2
""",
    "backwards": """
kernel back(in x: f32[s0], out y: f32[s0]) where s0 = x.0
nest n0 [a0: s0]
  v: f32 = load x[-a0 + s0 - 1]
  w: f32 = add(v, v)
  store y[a0] = w
""",
}


@dataclass(frozen=True)
class SampleOp:
    """A definition (``op``), its kernel for one SoC, and its generated files by name."""

    op: Any
    text: KernelText
    files: Mapping[str, str]


def sample_ops(soc: str = "") -> dict[str, SampleOp]:
    """The kernels by name, for ``soc`` ("": the default). Raises ValueError for a SoC that is not supported."""
    target = chip(soc or DEFAULT_SOC)
    if not isinstance(target, Chip):
        raise ValueError(str(target))
    return {name: _sample(text, target) for name, text in KERNELS.items()}


def _sample(text: str, target: Chip) -> SampleOp:
    kernel = parse(text)
    kernel = replace(kernel, name=f"autofuse_sample_k{content_digest(kernel)}")
    made = schedule(kernel, target)
    if not isinstance(made, Schedule):
        raise ValueError(f"{kernel.name}: {made}")
    op_type = camel(kernel.name)
    printed = generate(made, op_type, [])
    op = build(GeneratedOp(Lowered(kernel, op_type, (), (), ()), made, printed), target)
    return SampleOp(op, printed, texts(op, printed))
