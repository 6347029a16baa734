"""What ``--codegen_compile_debug=true;--debug_dir=DIR`` keeps: graphs before and after, reports, fused ops."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchair_autofuse.messages import Reason
from torchair_autofuse.soc.chip import chip

if TYPE_CHECKING:
    from torchair_autofuse.pipeline import FusionResult

_MODE = 0o755  # others must not be able to change sources that run.py builds


def keep(directory: str, snapshot: bytes, result: FusionResult) -> Path:
    """Writes ``<directory>/<graph name>/`` anew and returns it.

    It holds ``before.pb`` and ``after.pb`` (ModelDefs) with their text forms, ``fusion.txt``, ``fusion.json`` and
    ``ops/<op_type>/``, the artefact folders. ``snapshot``: the ModelDef before the rewrite. Raises OSError or
    ArtefactError when it cannot be written.
    """
    from google.protobuf import text_format

    from torchair_autofuse.ge.reader import parse
    from torchair_autofuse.opdef import artefact

    name = re.sub(r"[^\w.-]", "_", result.report.graph_name).strip(".") or "graph"
    folder = Path(directory).expanduser() / name
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=_MODE, parents=True)
    folder.chmod(_MODE)
    models: dict[str, Any] = {"before": parse(snapshot), "after": result.model_def}
    for stem, model in models.items():
        (folder / f"{stem}.pb").write_bytes(model.SerializeToString(deterministic=True))
        (folder / f"{stem}.pbtxt").write_text(text_format.MessageToString(model, as_utf8=True), encoding="utf-8")
    (folder / "fusion.txt").write_text(f"{result.report}\n", encoding="utf-8")
    (folder / "fusion.json").write_text(json.dumps(result.report.to_dict(), indent=1) + "\n", encoding="utf-8")
    target = chip(result.report.soc)
    assert not isinstance(target, Reason)
    for made, op in zip(result.generated, result.ops):
        artefact.write(folder, made, target, op, cache=False)
    return folder
