"""Generated kernels as text: what changes in the generator shows as a diff of golden/*.cpp (--update-golden)."""

from __future__ import annotations

from pathlib import Path

import pytest
from concat_kernels import concat_text
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
    "layer_norm": """
kernel golden_layer_norm(in x: f16[128, 768], in residual: f16[128, 768], in gamma: f16[768], out y: f16[128, 768],
  out rstd: f32[128])
nest n0 [a0: 128, a1: 768]
  v0: f16 = load x[768*a0 + a1]           # from Add_1
  v1: f32 = cast(v0, rint)                # from Add_1
  v2: f16 = load residual[768*a0 + a1]    # from Add_1
  v3: f32 = cast(v2, rint)                # from Add_1
  v4: f32 = add(v1, v3)                   # from Add_1
  m, s: f32, f32 = reduce welford(v4) over (a1)  # from LayerNormV4_2
  c0: f32 = const 768.0
  v5: f32 = div(s, c0)                    # from LayerNormV4_2
  c1: f32 = const 0.0009765625
  v6: f32 = add(v5, c1)                   # from LayerNormV4_2
  v7: f32 = rsqrt(v6)                     # from LayerNormV4_2
  v8: f32 = sub(v4, m)                    # from LayerNormV4_2
  v9: f32 = mul(v8, v7)                   # from LayerNormV4_2
  v10: f16 = load gamma[a1]               # from LayerNormV4_2
  v11: f32 = cast(v10, rint)              # from LayerNormV4_2
  v12: f32 = mul(v9, v11)                 # from LayerNormV4_2
  v13: f16 = cast(v12, rint)              # from LayerNormV4_2
  store y[768*a0 + a1] = v13              # from LayerNormV4_2
  store rstd[a0] = v7                     # from LayerNormV4_2
""",
    "softmax": """
kernel golden_softmax(in x: f32[s0, s1], out y: f32[s0, s1]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  v0: f32 = load x[s1*a0 + a1]            # from SoftmaxV2_1
  m, s: f32, f32 = reduce maxsumexp(v0) over (a1)  # from SoftmaxV2_1
  v1: f32 = sub(v0, m)                    # from SoftmaxV2_1
  v2: f32 = exp(v1)                       # from SoftmaxV2_1
  v3: f32 = div(v2, s)                    # from SoftmaxV2_1
  store y[s1*a0 + a1] = v3                # from SoftmaxV2_1
""",
    "columns": """
kernel golden_columns(in x: bf16[8, 50, 320], out y: bf16[8, 320])
nest n0 [a0: 8, a1: 50, a2: 320]
  v0: bf16 = load x[16000*a0 + 320*a1 + a2]  # from ReduceMean_1
  v1: f32 = cast(v0, rint)                # from ReduceMean_1
  t: f32 = reduce sum(v1) over (a1)       # from ReduceMean_1
  c0: f32 = const 50.0
  v2: f32 = div(t, c0)                    # from ReduceMean_1
  v3: bf16 = cast(v2, rint)               # from ReduceMean_1
  store y[320*a0 + a2] = v3               # from ReduceMean_1
""",
    "parts": concat_text(["s0", 0], 1, [16, 32], bodies=("copy", "neg")).replace(
        "kernel concat", "kernel golden_parts"
    ),
    "concat": concat_text(["s0", 0], 1, [16, 17], bodies=("copy", "neg")).replace(
        "kernel concat", "kernel golden_concat"
    ),
    "split": """
kernel golden_split(in x: f32[1048576], out y: f32[])
nest n0 [a0: 1048576]
  v0: f32 = load x[a0]                    # from LpNormV2_1
  v1: f32 = mul(v0, v0)                   # from LpNormV2_1
  t: f32 = reduce sum(v1) over (a0)       # from LpNormV2_1
  v2: f32 = sqrt(t)                       # from LpNormV2_1
  store y[0] = v2                         # from LpNormV2_1
""",
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
