"""Generated kernels as text: what changes in the generator shows as a diff of golden/*.cpp (--update-golden)."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_schedule import scheduled

from torchair_autofuse.codegen.kernel import generate
from torchair_autofuse.schedule.tiling import to_text

GOLDEN = Path(__file__).parent / "golden"

KERNELS = {
    "flat": """
kernel golden_flat(in x: f16[s0, 64], in bias: f32[1], out y: f16[s0, 64], out mask: bool[s0, 64]) where s0 = x.0
nest n0 [a0: s0, a1: 64]
  v0: f16 = load x[64*a0 + a1]            # from Mul_1
  v1: f32 = cast(v0, rint)                # from Mul_1
  c0: f32 = const 0.5
  v2: f32 = mul(v1, c0)                   # from Mul_1
  v3: f32 = load bias[0]                  # from Add_2
  v4: f32 = add(v2, v3)                   # from Add_2
  v5: f32 = sigmoid(v4)                   # from Sigmoid_3
  v6: bool = gt(v5, v2)                   # from Greater_4
  v7: f16 = cast(v5, rint)                # from Sigmoid_3
  store y[64*a0 + a1] = v7                # from Sigmoid_3
  store mask[64*a0 + a1] = v6             # from Greater_4
""",
    "rows": """
kernel golden_rows(in x: f16[s0, 768], in weight: f16[768], in scale: f32[s0, 1],
  out y: f16[s0, 768], out s: f32[s0]) where s0 = x.0
nest n0 [a0: s0, a1: 768]
  v0: f16 = load x[768*a0 + a1]           # from Mul_1
  v1: f32 = cast(v0, rint)                # from Mul_1
  v2: f16 = load weight[a1]               # from Mul_1
  v3: f32 = cast(v2, rint)                # from Mul_1
  v4: f32 = mul(v1, v3)                   # from Mul_1
  v5: f32 = load scale[a0]                # from Rsqrt_2
  v6: f32 = rsqrt(v5)                     # from Rsqrt_2
  v7: f32 = mul(v4, v6)                   # from Mul_3
  v8: f16 = cast(v7, rint)                # from Mul_3
  store y[768*a0 + a1] = v8               # from Mul_3
  store s[a0] = v6                        # from Rsqrt_2
""",
    "outer": """
kernel golden_outer(in x: f16[s0, 12, s1, 64], in mask: bool[s0, 1, s1, 64], in gain: f32[12, 1, 1],
  out y: f16[s0, 12, s1, 64]) where s0 = x.0, s1 = x.2
nest n0 [a0: s0, a1: 12, a2: s1, a3: 64]
  v0: f16 = load x[768*s1*a0 + 64*s1*a1 + 64*a2 + a3]
  v1: f32 = cast(v0, rint)
  v2: bool = load mask[64*s1*a0 + 64*a2 + a3]
  v3: f32 = load gain[a1]
  c0: f32 = const 0.0
  v4: f32 = mul(v1, v3)                   # from Mul_1
  v5: f32 = select(v2, v4, c0)            # from Select_2
  v6: f16 = cast(v5, rint)                # from Select_2
  store y[768*s1*a0 + 64*s1*a1 + 64*a2 + a3] = v6
""",
    "groups": "kernel golden_groups("
    + ", ".join(f"in x{i}: f32[s0]" for i in range(6))
    + ", out y: f32[s0]) where s0 = x0.0\nnest n0 [a0: s0]\n"
    + "".join(f"  v{i}: f32 = load x{i}[a0]\n" for i in range(6))
    + "".join(
        f"  t{i}: f32 = {'max' if i % 2 else 'add'}({f't{i - 1}' if i > 1 else 'v0'}, v{i})\n" for i in range(1, 6)
    )
    + "  store y[a0] = t5\n",
}


def text_of(name):
    made = scheduled(KERNELS[name])
    printed = generate(made, "AutofuseGolden", ["what the kernel fuses"])
    steps = "".join(f"//   {'*' if s.field else ' '} {s.name} = {to_text(s.value)}\n" for s in made.steps)
    return f"{printed.kernel_cpp}\n// tiling.h\n{printed.tiling_h}\n// Tiling steps (* is read by the kernel):\n{steps}"


@pytest.mark.parametrize("name", KERNELS)
def test_golden_kernels(name, update_golden):
    path, text = GOLDEN / f"kernel_{name}.cpp", text_of(name)
    if update_golden:
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; see the diff, then --update-golden"
