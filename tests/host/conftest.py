"""Fixtures of the tests that compile models with the real TorchAir: a clean plugin, one kernel cache, loaded graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for the whole run: a kernel that two tests need is written and built once.

    What is built is shared with other runs: it is keyed by content.
    """
    from torchair_autofuse.twin.build import default_cache_root

    folder = tmp_path_factory.mktemp("kernel_cache")
    folder.chmod(0o755)
    builds = default_cache_root() / "twin"
    builds.mkdir(parents=True, exist_ok=True)
    (folder / "twin").symlink_to(builds, target_is_directory=True)
    return folder


@pytest.fixture
def plugin(kernel_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The plugin module as after a fresh import: no flags, no reports, no warnings given, no listeners."""
    import torch

    from torchair_autofuse import plugin
    from torchair_autofuse.host import kernels

    for name in ("AUTOFUSE_FLAGS", "AUTOFUSE_DFX_FLAGS", "GF_AUTOFUSION_DEBUG", "GF_AUTOFUSION_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_CACHE_DIR", str(kernel_cache))
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_STRICT", "1")

    def clean() -> None:
        plugin.reset()
        plugin.clear_reports()
        plugin.state._warned.clear()
        plugin.state._listeners.clear()
        kernels.set_root(None)
        torch._dynamo.reset()

    clean()
    yield plugin
    clean()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The GraphDefs that TorchAir hands to the host from here on, in order."""
    from torchair_autofuse.ge.proto import ge_ir
    from torchair_autofuse.host.native import TorchNpuGraphBase

    found: list[Any] = []
    original = TorchNpuGraphBase.load

    def load(self: Any, model_def: bytes, *args: Any) -> None:
        found.append(ge_ir().ModelDef.FromString(bytes(model_def)).graph[0])
        original(self, model_def, *args)

    monkeypatch.setattr(TorchNpuGraphBase, "load", load)
    return found
