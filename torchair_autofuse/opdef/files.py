"""What is generated from a definition: the files of its folder, by name."""

from __future__ import annotations

import hashlib
from typing import Any

from torchair_autofuse.codegen.kernel import KernelText
from torchair_autofuse.codegen.op_host import op_host_cpp
from torchair_autofuse.loop.printer import to_text
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.opdef.provenance import annotated, subgraph_text
from torchair_autofuse.opdef.schedule_text import schedule_text

SOURCES = ("kernel.cpp", "tiling.h")
"""What a kernel is built from."""

RUN_PY = '''"""Builds kernel.cpp as it stands in this folder, runs it on the CPU twin and compares it with loop.txt.

    python run.py [--seed N] [--shape s0=17 ...]
"""

import sys
from pathlib import Path

from torchair_autofuse.opdef.run import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent))
'''


def texts(op: Any, text: KernelText) -> dict[str, str]:
    """All generated files of an op but for the definition itself. ``text``: the kernel of its first schedule."""
    made = Definition.of(op)
    return {
        "kernel.cpp": text.kernel_cpp,
        "tiling.h": text.tiling_h,
        "op_host.cpp": op_host_cpp(made.host_plan),
        "loop.txt": to_text(annotated(op, made.kernel)),
        "schedule.txt": schedule_text(made),
        "subgraph.pbtxt": subgraph_text(op),
        "run.py": RUN_PY,
    }


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
