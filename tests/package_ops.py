"""Ops for tests of the package route, and a folder that looks like an installed CANN (tests/fake_cann)."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from tests.definition_samples import FLAT as RAISE
from torchair_autofuse import opdef
from torchair_autofuse.deliver.cann import Cann, find_cann
from torchair_autofuse.soc.chip import chip

SCALE = """\
kernel k(in x: f32[s0, 64], in h: f16[64], out y: f16[s0, 64], out m: bool[s0, 64]) where s0 = x.0
nest n0 [a0: s0, a1: 64]
  v0: f32 = load x[64*a0 + a1]  # from Mul_1
  v1: f16 = load h[a1]  # from Cast
  v2: f32 = cast(v1, rint)  # from Cast
  v3: f32 = mul(v0, v2)  # from Mul_1
  v4: f32 = const 1.5  # from Less
  v5: bool = lt(v3, v4)  # from Less
  v6: f16 = cast(v3, rint)  # from Cast_2
  store y[64*a0 + a1] = v6
  store m[64*a0 + a1] = v5
"""
SUM = """\
kernel k(in x: f32[s0, s1], out y: f32[s0]) where s0 = x.0, s1 = x.1
nest n0 [a0: s0, a1: s1]
  v0: f32 = load x[s1*a0 + a1]  # from ReduceSum
  v1: f32 = reduce sum(v0) over (a1)  # from ReduceSum
  store y[a0] = v1
"""


def definitions(make_op, texts=(SCALE, RAISE, SUM), soc="Ascend910B1"):
    """FusedOpDefs of kernels, scheduled for ``soc``."""
    return [opdef.build(make_op(text, soc), chip(soc), {"s0": 24}) for text in texts]


def fake_cann(folder: Path, version: str = "8.5.0") -> tuple[Cann, dict[str, str]]:
    """A CANN that find_cann finds with the variables that come with it."""
    source = Path(__file__).parent / "fake_cann"
    package = folder / "compiler" / "tikcpp" / "ascendc_kernel_cmake"
    package.mkdir(parents=True)
    for name in ("ASCConfig.cmake", "tool.py"):
        shutil.copy(source / name, package / name)
    shutil.copy(source / "set_env.sh", folder / "set_env.sh")
    (folder / "compiler" / "version.info").write_text(f"Version={version}\n")
    scripts = sysconfig.get_path("scripts")  # of cmake, when it is installed with pip
    environ = {**os.environ, "ASCEND_HOME_PATH": str(folder), "PATH": f"{os.environ['PATH']}:{scripts}"}
    cann = find_cann(environ)
    assert isinstance(cann, Cann)
    return cann, environ
