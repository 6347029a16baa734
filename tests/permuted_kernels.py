"""Random kernels whose tensors have their axes in different orders: text of the loop IR, and sizes to run it at."""

from __future__ import annotations

import random

SIZES = (1, 2, 3, 7, 8, 16, 17, 32, 48, 64, "s", "s", "s")
LENGTHS = (0, 1, 2, 7, 16, 17, 33, 64, 100)


def place(order, sizes):
    """(dims, index) of a dense tensor with these axes, outermost first."""
    terms, pitch = [], []
    for axis in reversed(order):
        terms.append("*".join([*pitch, axis]))
        pitch.append(str(sizes[axis]))
    return f"[{', '.join(str(sizes[a]) for a in order)}]", " + ".join(reversed(terms)) or "0"


def permuted_kernel(seed):
    """(text, sizes): a sum of one to four tensors, or of values repeated along axes, stored in one to three orders."""
    rng = random.Random(seed)
    names = [f"a{i}" for i in range(rng.choice((2, 2, 3, 3, 4)))]
    picked = {a: rng.choice(SIZES) for a in names}
    sizes = {a: f"s{i}" if picked[a] == "s" else picked[a] for i, a in enumerate(names)}
    dims, index = place(names, sizes)
    params, lines, stores = [f"in x0: f32{dims}"], [f"  v0: f32 = load x0[{index}]"], []
    for k in range(1, rng.choice((1, 2, 3, 4))):
        dtype = rng.choice(("f16", "bf16", "f32", "f32", "bool", "i32", "u8", "i8"))
        dims, index = place(rng.sample(names, rng.choice((len(names), len(names), len(names) - 1, 1))), sizes)
        params.append(f"in x{k}: {dtype}{dims}")
        lines.append(f"  w{k}: {dtype} = load x{k}[{index}]")
        if dtype != "f32":
            lines.append(f"  c{k}: f32 = cast(w{k}, rint)")
        lines.append(f"  v{k}: f32 = add(v{k - 1}, {'w' if dtype == 'f32' else 'c'}{k})")
    last = lines[-1].split(":")[0].strip()
    for k in range(rng.choice((1, 1, 2, 3))):
        dtype = rng.choice(("f16", "bf16", "f32", "f32", "i32", "bool"))
        dims, index = place(rng.sample(names, len(names)), sizes)
        value = last
        if dtype == "bool":
            lines += [f"  q{k}: f32 = const 0.25", f"  o{k}: bool = gt({last}, q{k})"]
        elif dtype != "f32":
            lines.append(f"  o{k}: {dtype} = cast({last}, {'trunc' if dtype == 'i32' else 'rint'})")
        value = last if dtype == "f32" else f"o{k}"
        params.append(f"out y{k}: {dtype}{dims}")
        stores.append(f"  store y{k}[{index}] = {value}")
    symbols = [sizes[a] for a in names if picked[a] == "s"]
    where = ", ".join(f"{s} = x0.{i}" for i, s in enumerate(sizes.values()) if s in symbols)
    head = f"kernel permuted({', '.join(params)})" + (f" where {where}" if where else "")
    axes = ", ".join(f"{a}: {sizes[a]}" for a in names)
    text = "\n".join([head, f"nest n0 [{axes}]", *lines, *stores, ""])
    return text, [{s: rng.choice(LENGTHS) for s in symbols} for _ in range(4 if symbols else 1)]
