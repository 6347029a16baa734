"""The protobuf classes of TorchAir's graph format, without importing torchair or torch_npu."""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import google.protobuf

_LOADED = "torchair._ge_concrete_graph.ge_ir_pb2"
_PRIVATE = "_torchair_autofuse_ge_ir_pb2"


def ge_ir() -> Any:
    """The module that holds ``ModelDef``, ``GraphDef``, ``OpDef``, ``AttrDef``, ``TensorDef``, ``TensorDescriptor``,
    ``ShapeDef`` and ``DataType``.

    TorchAir's own module when torchair is loaded, else the generated file of the torch_npu wheel, executed under a
    private name. Either order works in one process: both files add the same bytes to protobuf's default pool, which
    takes the second for the first and hands out the same message classes. Raises ImportError when no wheel is found.
    """
    return sys.modules.get(_LOADED) or _from_wheel()


@lru_cache(maxsize=1)
def _from_wheel() -> ModuleType:
    # TorchAir picks its file by the same rule.
    old = int(google.protobuf.__version__.split(".")[0]) < 4
    name = f"ge_ir_by_protoc_{'3_13' if old else '3_19'}_pb2"
    loaded = sys.modules.get(f"torchair._ge_concrete_graph.{name}")
    if loaded is not None:
        return loaded
    path = _torchair_folder() / "_ge_concrete_graph" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(_PRIVATE, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"{path} not found: this torch_npu is not one of those supported (2.13.0 is tested)")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _torchair_folder() -> Path:
    """TorchAir's folder inside the torch_npu wheel; found without running torch_npu's own code."""
    found = sys.modules.get("torch_npu")
    locations = list(getattr(found, "__path__", ()))
    if not locations:
        spec = importlib.util.find_spec("torch_npu") if found is None else None
        locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    folders = [Path(location) / "dynamo" / "torchair" for location in locations]
    if not folders and "torchair" not in sys.modules:  # the host loader hides torch_npu and serves torchair by itself
        spec = importlib.util.find_spec("torchair")
        folders = [Path(f) for f in spec.submodule_search_locations or ()] if spec is not None else []
    for folder in folders:
        if folder.is_dir():
            return folder
    raise ImportError(
        "the torch_npu wheel, which holds TorchAir's graph format, is not installed: "
        "pip install torch_npu==2.13.0 (neither CANN nor an NPU is needed for it)"
    )
