"""A CANN of look-alikes, and ctypes over the small GE in it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import torchair_autofuse
from torchair_autofuse.codegen.templates import resource
from torchair_autofuse.deliver.cann import Cann
from torchair_autofuse.dtypes import by_name
from torchair_autofuse.opdef.definition import Definition
from torchair_autofuse.twin.build import runtime_library, store
from torchair_autofuse.twin.toolchain import find_compiler

ROOT = Path(__file__).parents[2]
TWIN_CANN = Path(torchair_autofuse.__file__).parent / "twin" / "cann"
FAKE = Path(__file__).with_name("fake_bisheng.py")
MAX_RANK = 25


def make_cann(home: Path) -> Cann:
    """A CANN 9.2 home with look-alikes of headers, libraries and compilers.

    None is called libascendcl.so: a process that holds one by that name looks like one with CANN.
    """
    for root in (TWIN_CANN / "include", TWIN_CANN / "include_9_2"):
        for path in root.rglob("*.h"):
            target = home / "include" / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    libraries, tools = home / "lib64", home / "bin"
    libraries.mkdir()
    tools.mkdir()
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O0", "-fPIC", "-shared", f"-I{home / 'include'}"]
    flags += ["-D_GLIBCXX_USE_CXX11_ABI=0"]
    for name, source, linked in (("acl_rt", "acl.cpp", ["-ldl"]), ("graph", "graph.cpp", ["-lacl_rt"])):
        out = libraries / f"lib{name}.so"
        command = [find_compiler().compiler, *flags, str(TWIN_CANN / "jit" / source), "-o", str(out)]
        subprocess.run([*command, f"-L{libraries}", f"-Wl,-rpath,{libraries}", *linked], check=True)
    for name in ("bisheng", "llvm-objcopy"):
        (tools / name).write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {FAKE} {name} "$@"\n')
        (tools / name).chmod(0o755)
    (home / "version.info").write_text("Version=9.2.0\n")
    return Cann(home, (9, 2, 0), "9.2.0", os.uname().machine)


def older_runtime(cann: Cann, out: Path) -> Path:
    """The runtime library as it is on CANN 9.1, where GE does not refresh addresses; it must not warn."""
    runtime = resource("op_templates") / "runtime"
    whole = out.with_suffix(".cpp")
    whole.write_text("".join(f'#include "{p.name}"\n' for p in sorted(runtime.glob("*.cpp"))))
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O0", "-fPIC", "-fvisibility=hidden", f"-I{runtime}"]
    flags += [f"-I{TWIN_CANN / 'include'}", "-D_GLIBCXX_USE_CXX11_ABI=0", str(whole), "-shared", "-o", str(out)]
    libraries = cann.home / "lib64"
    subprocess.run(
        [find_compiler().compiler, *flags, f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lgraph", "-lacl_rt"],
        check=True,
    )
    return out


class Ge:
    """The GE of a CANN of look-alikes, in this process."""

    def __init__(self, cann: Cann) -> None:
        ctypes.CDLL(str(runtime_library(find_compiler(), store(None))), mode=ctypes.RTLD_GLOBAL)
        self.acl = ctypes.CDLL(str(cann.home / "lib64" / "libacl_rt.so"))
        self.lib = ctypes.CDLL(str(cann.home / "lib64" / "libgraph.so"))
        for function in (self.lib.twin_ge_ir, self.acl.twin_acl_error):
            function.restype = ctypes.c_char_p
        self.acl.twin_acl_loads.restype = self.acl.twin_acl_launches.restype = ctypes.c_int64
        self.lib.twin_ge_execute.restype = self.lib.twin_ge_output.restype = ctypes.c_void_p
        self.lib.twin_ge_free.argtypes = [ctypes.c_void_p]
        self.lib.twin_ge_infer.restype = ctypes.c_uint32

    def ir(self, op_type: str) -> str:
        return str(self.lib.twin_ge_ir(op_type.encode()).decode())

    @property
    def launches(self) -> int:
        return int(self.acl.twin_acl_launches())

    def error(self) -> str:
        return str(self.acl.twin_acl_error().decode())

    def infer(self, op: Any, shapes: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]] | None:
        """(GE type, dims) of each output; None when the op refuses. A dim of -1, or shape [-2], is not known."""
        ranks, dims = _dims(shapes)
        n = len(op.output)
        out_ranks, out_dims, out_types = _words([0] * n), _words([0] * n * MAX_RANK), _words([0] * n)
        status = self.lib.twin_ge_infer(
            op.op_type.encode(), ctypes.c_int64(len(shapes)), ranks, dims, ctypes.c_int64(n), out_ranks, out_dims,
            out_types,
        )  # fmt: skip
        if status != 0:
            return None
        return [(out_types[i], out_dims[i * MAX_RANK : i * MAX_RANK + out_ranks[i]]) for i in range(n)]

    def execute(self, op: Any, inputs: Sequence[np.ndarray], types: Sequence[int] | None = None) -> Call | None:
        """Runs the op on arrays; None when it fails."""
        arrays = [np.array(a, order="C") for a in inputs]  # memory of this call alone
        types = [by_name(p.dtype).ge_c for p in op.input] if types is None else types
        ranks, dims = _dims([a.shape for a in arrays])
        addresses = (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
        handle = self.lib.twin_ge_execute(
            op.op_type.encode(), ctypes.c_int64(len(arrays)), ranks, dims, _words(types), addresses,
            _words([a.nbytes for a in arrays]), ctypes.c_int64(len(op.output)),
        )  # fmt: skip
        return None if handle is None else Call(self, op, handle, arrays)

    def move_input(self, call: Call, array: np.ndarray) -> int:
        """As if the first input lay elsewhere: how many words of the arguments the op changes; -1 when it fails."""
        self.lib.twin_ge_move_input.restype = ctypes.c_int64
        return int(
            self.lib.twin_ge_move_input(
                call.op.op_type.encode(), ctypes.c_void_p(call.handle), ctypes.c_void_p(array.ctypes.data)
            )
        )


class Call:
    def __init__(self, ge: Ge, op: Any, handle: int, arrays: list[np.ndarray]) -> None:
        self.ge, self.op, self.handle, self.arrays = ge, op, handle, arrays

    def outputs(self) -> list[np.ndarray]:
        """The outputs, copied; the call is over."""
        made = []
        for i, param in enumerate(self.op.output):
            rank, count, dims = ctypes.c_int64(), ctypes.c_int64(), _words([0] * MAX_RANK)
            address = self.ge.lib.twin_ge_output(
                ctypes.c_void_p(self.handle), ctypes.c_int64(i), ctypes.byref(rank), dims, ctypes.byref(count)
            )
            data = ctypes.string_at(address, count.value) if count.value else b""
            made.append(np.frombuffer(data, by_name(param.dtype).numpy).reshape(dims[: rank.value]))
        self.ge.lib.twin_ge_free(self.handle)
        return made


def inputs_of(op: Any, symbols: dict[str, int], seed: int = 0) -> list[np.ndarray]:
    from torchair_autofuse.opdef.inputs import random_inputs

    made = Definition.of(op)
    arrays = random_inputs(made.kernel, made.shapes(symbols), seed, special=False)
    return [arrays[p.name] for p in made.kernel.inputs]


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def _dims(shapes: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    flat = [d for s in shapes for d in [*s, *[0] * (MAX_RANK - len(s))]]
    return _words([len(s) for s in shapes]), _words(flat)
