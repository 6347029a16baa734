"""Writes fused_op.desc, the compiled form of fused_op.proto that the package loads. Needs grpcio-tools.

Run it after changing fused_op.proto: ``python proto/make_desc.py``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def compile_proto() -> bytes:
    """A serialized FileDescriptorSet of fused_op.proto. Raises RuntimeError with the compiler's message."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "fused_op.desc"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE}", f"--descriptor_set_out={out}"]
        run = subprocess.run([*command, str(HERE / "fused_op.proto")], capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"fused_op.proto does not compile (pip install grpcio-tools):\n{run.stderr}")
        return out.read_bytes()


if __name__ == "__main__":
    (HERE / "fused_op.desc").write_bytes(compile_proto())
    print(f"wrote {HERE / 'fused_op.desc'}")
