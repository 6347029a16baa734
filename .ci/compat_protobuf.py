"""Graphs and definitions under the protobuf in the folder given: read, fused, written, hashed, as with any other."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GRAPHS = ("gan_block__static__g0", "llama_bf16__dynamic__g0", "bert__static__g0")


def digests() -> list[str]:
    """One line per graph: the digest of the rewritten graph, of the definitions and of their text."""
    sys.path.insert(0, str(ROOT))
    from google.protobuf import text_format

    from benchmarks.captured import case
    from torchair_autofuse import opdef
    from torchair_autofuse.opdef.store import to_bytes, to_textproto

    lines = []
    for name in GRAPHS:
        result = case(name).result
        graph = text_format.MessageToString(result.model_def).encode()  # maps have an order in the text only
        for op in result.ops:
            opdef.validate(op)
            assert type(op).FromString(to_bytes(op)) == op, op.op_type
        definitions = b"".join(to_bytes(op) for op in result.ops)
        text = "".join(to_textproto(op) for op in result.ops).encode()
        lines.append(" ".join([name, *(hashlib.sha256(data).hexdigest()[:16] for data in (graph, definitions, text))]))
    return lines


def main(folder: str) -> int:
    import google.protobuf

    version = google.protobuf.__version__
    if not Path(google.protobuf.__file__).is_relative_to(folder):
        print(f"protobuf {version} is not the one in {folder}")
        return 1
    here = digests()
    print(f"protobuf {version}: {len(here)} graphs fused, their definitions valid and stable")
    command = [sys.executable, __file__, "--digests"]
    plain = subprocess.run(command, check=True, capture_output=True, text=True, env=_without_python_path())
    if plain.stdout.splitlines() != here:
        print("differs from the installed protobuf:", *here, plain.stdout, sep="\n")
        return 1
    print("the same graphs and definitions, byte for byte, as with the installed protobuf")
    return 0


def _without_python_path() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


if __name__ == "__main__":
    if sys.argv[1] == "--digests":
        print(*digests(), sep="\n")
        sys.exit(0)
    sys.exit(main(sys.argv[1]))
