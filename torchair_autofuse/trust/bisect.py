"""bisect: finds the one fused op with which a model goes wrong, and leaves its reproduction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchair_autofuse.options import Options
from torchair_autofuse.trust.fuel import Fuel
from torchair_autofuse.trust.repro import write_inputs, write_readme, write_static
from torchair_autofuse.trust.search import Attempt, BisectResult, MadeOp, search
from torchair_autofuse.trust.verify import Ran, Trial, run


def bisect(
    model: Callable[..., Any],
    *inputs: Any,
    check: Callable[[Any], bool] | None = None,
    options: str | Options | None = None,
    dynamic: bool | None = None,
    backward: bool = False,
    out: str | Path | None = None,
    repeats: int = 2,
) -> BisectResult:
    """Finds the fused op with which a model goes wrong, by how many fused ops are allowed.

    ``model``, ``inputs``, ``options``, ``dynamic``, ``backward``: as for ``verify``. ``check``: given the compiled
    model's outputs, whether they are right; None: ``verify`` decides. An exception is wrong too. ``out``: the folder
    for the reproduction, which must be new or empty; None: none is written. ``repeats``: how often the tries that
    decide are made, which shows what is flaky.

    All tries are made in this process. For what hangs or crashes there is the command, ``python -m torchair_autofuse
    bisect script.py``. Raises ValueError for a bad argument.
    """
    if repeats < 1:
        raise ValueError(f"bisect: repeats: expected a number of at least 1, got {repeats}")
    folder = None if out is None else empty_folder(Path(out))
    trial = Trial(model, options, dynamic, backward)

    def attempt(fuel: int | None) -> Attempt:
        start = time.perf_counter()
        with Fuel(fuel, numbered=True) as made:
            why = _judged(trial, inputs, check)
        return Attempt(fuel, not why, why, tuple(made.made), time.perf_counter() - start)

    result = search(attempt, repeats)
    if result.op is not None and folder is not None:
        _reproduce(result.op, result, trial, inputs, folder)
        result = replace(result, folder=str(folder))
    return result


def empty_folder(folder: Path) -> Path:
    """The folder, made if need be. Raises ValueError when there is something in it, or it is a file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty: give a new folder for the reproduction")
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return folder


def _judged(trial: Trial, inputs: tuple[Any, ...], check: Callable[[Any], bool] | None) -> str:
    """What is wrong with one run, "" if it is right."""
    try:
        ran = run(trial, [inputs], eager=False)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    if ran.report.failure:
        return ran.report.failure
    if check is None:
        return "" if ran.report.ok else ran.report.difference()
    return "" if check(ran.outputs[0]) else "the check is not true"


def _reproduce(op: MadeOp, result: BisectResult, trial: Trial, inputs: tuple[Any, ...], folder: Path) -> None:
    places: list[tuple[str, tuple[str, ...]]] = []

    def made(found: MadeOp, fusion: Any, index: int) -> None:
        if found == op:
            write_static(folder, fusion, index)
            places.append((fusion.report.graph_name, found.nodes))

    with Fuel(result.fuel, made, numbered=True):
        try:
            ran: Ran | None = run(trial, [inputs], eager=False)
        except Exception:  # as in the tries
            ran = None
    given = ran.session.inputs_of(*places[-1]) if ran is not None and places else None
    if given is not None:
        write_inputs(folder, given)
    write_readme(folder, op, result.why)
