"""The loader: what a process looks like after ``import torchair_autofuse``, with and without CANN."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from host_process import run

wheel = pytest.mark.skipif(
    importlib.util.find_spec("torchair") is None and importlib.util.find_spec("torch_npu") is None,
    reason="needs the torch_npu wheel",
)

INSTALL = """
import torchair_autofuse
from torchair_autofuse.host import loader
loader.install()
"""


@wheel
def test_installing_is_light_and_makes_torch_npu_look_absent() -> None:
    run(
        INSTALL
        + """
import importlib.metadata, importlib.util, os, sys
loader.install()
assert "torch" not in sys.modules
assert sum(type(f).__module__ == loader.__name__ for f in sys.meta_path) == 1
assert os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
assert importlib.util.find_spec("torch_npu") is None and "torch_npu" not in sys.modules
assert importlib.util.find_spec("torch") is not None  # its neighbours in the folder are found
assert importlib.util.find_spec("torchair").origin.endswith("torchair/__init__.py")
assert importlib.metadata.version("torch_npu")
importlib.invalidate_caches()
sys.path_importer_cache.clear()
try:
    import torch_npu
except ModuleNotFoundError as error:
    assert error.name == "torch_npu"
else:
    raise AssertionError("torch_npu was found")
""",
        TORCHAIR_AUTOFUSE_HOST="1",
    )


@wheel
def test_torchair_on_the_host() -> None:
    run(
        INSTALL
        + """
import logging, signal, sys
def handler(*_): pass
signal.signal(signal.SIGTERM, handler)
order = []
loader.on_torchair_import(lambda: order.append(sys.modules["torchair"].get_npu_backend))

import torch
import torchair

assert order == [torchair.get_npu_backend]
loader.on_torchair_import(lambda: order.append("late"))
assert order[1:] == ["late"]

# The process is as it was.
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGTERM) is handler
assert logging.getLoggerClass() is logging.Logger
assert "torch_npu" not in sys.modules
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    order.append("interrupted")
assert order[-1] == "interrupted"

# Native stand-ins.
from torchair.core import _torchair
from torchair._utils.check_platform import is_arch35
assert _torchair.GetSocName() == "Ascend910B1" and not is_arch35()
loader.set_soc("Ascend950PR_9589")
assert _torchair.GetSocName() == "Ascend950PR_9589" and is_arch35()
loader.set_soc(None)
try:
    _torchair.as_torch_tensors
except AttributeError as error:
    assert "AF402" in str(error) and "as_torch_tensors" in str(error)

# Graphs say that tensors are on the NPU and symbolic sizes on the host; eager code and other backends work as before.
assert {"npu", "inductor"} <= set(torch._dynamo.list_backends())
placements = []
class Fake:
    def __init__(self, model, *, output_dtypes, input_placements):
        assert output_dtypes == [0]
        placements.append(sorted(input_placements))
    def run(self, inputs, assigned):
        return [inputs[[x.dim() for x in inputs].index(2)].relu()]
from torchair_autofuse.host import executor
executor.GraphExecutor = Fake
config = torchair.CompilerConfig()
f = torch.compile(lambda x, s: (x + s).relu(), backend=torchair.get_npu_backend(compiler_config=config), dynamic=False)
x = torch.randn(4, 8)
assert torch.equal(f(x, torch.tensor(0.0)), x.relu())
assert placements == [[0, 1]], placements
f = torch.compile(
    lambda x: x.reshape(x.shape[0], -1).relu(), backend=torchair.get_npu_backend(compiler_config=config), dynamic=True)
assert torch.equal(f(x), x.relu())
assert placements[1][-1] == 1 and set(placements[1][:-1]) <= {0}, placements
assert torch.equal(torch.compile(lambda x: x * 2, backend="aot_eager")(x), x * 2)
"""
    )


@wheel
def test_libraries_that_probe_for_torch_npu_take_their_cpu_way() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    pytest.importorskip("diffusers")
    run(
        INSTALL
        + """
import torch, torchair, accelerate, diffusers, transformers
from accelerate.utils import is_npu_available
from diffusers.utils import is_torch_npu_available as diffusers_probe
from transformers.utils import is_torch_npu_available
assert not is_torch_npu_available() and not is_npu_available() and not diffusers_probe()
assert accelerate.Accelerator(cpu=True).device.type == "cpu"
config = transformers.BertConfig(
    hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=20)
ids = torch.arange(6).reshape(2, 3)
assert transformers.BertModel(config).eval()(ids).last_hidden_state.shape == (2, 3, 16)
unet = diffusers.UNet2DModel(
    sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8,),
    norm_num_groups=2, attention_head_dim=4,
    down_block_types=("AttnDownBlock2D",), up_block_types=("AttnUpBlock2D",))
assert unet(torch.zeros(1, 1, 8, 8), 1).sample.shape == (1, 1, 8, 8)
""",
        HF_HUB_OFFLINE="1",
    )


@wheel
def test_torch_imported_first_gives_a_clear_second_error() -> None:
    out = run(
        """
        import sys
        try:
            import torch
        except RuntimeError as error:
            print(error)
        """
        + INSTALL.replace("\n", "\n" + " " * 8)
        + """
        try:
            import torch
        except ImportError as error:
            print(error)
        """,
        TORCHAIR_AUTOFUSE_HOST="1",
    )
    first, second = out.strip().splitlines()
    assert "torch_npu" in first
    assert second.startswith("AF403: torch was imported before torchair_autofuse")
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in second


@pytest.mark.parametrize("value", ["yes", "2"])
def test_bad_switch_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchair_autofuse.host import loader

    monkeypatch.setenv("TORCHAIR_AUTOFUSE_HOST", value)
    with pytest.raises(ValueError, match=f"TORCHAIR_AUTOFUSE_HOST='{value}'.*expected 1"):
        loader.cann_present()


def test_soc_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchair_autofuse.host import loader

    monkeypatch.delenv("TORCHAIR_AUTOFUSE_SOC", raising=False)
    assert loader.soc_name() == "Ascend910B1"
    monkeypatch.setenv("TORCHAIR_AUTOFUSE_SOC", "Ascend310P3")
    assert loader.soc_name() == "Ascend310P3"
    loader.set_soc("Ascend910B3")
    try:
        assert loader.soc_name() == "Ascend910B3"
    finally:
        loader.set_soc(None)
    with pytest.raises(ValueError, match="SoC name is empty"):
        loader.set_soc(" ")


# With CANN, importing torch_npu puts a lazy proxy in place of the torchair package; this is its shape.
_DEVICE = {
    "torch_npu/__init__.py": "from . import dynamo\n",
    "torch_npu/dynamo/__init__.py": """
import sys
class _Lazy:
    def __getattr__(self, name):
        if name not in ("__spec__", "__path__", "hook", "marker"):
            raise AttributeError(name)
        from . import torchair
        return getattr(torchair, name)
sys.modules["torchair"] = _Lazy()
""",
    "torch_npu/dynamo/torchair/__init__.py": "from torchair.hook import patched\nmarker = 'complete'\n",
    "torch_npu/dynamo/torchair/hook.py": "patched = False\n",
}
_CALLBACK = """
def callback():
    import torchair.hook
    assert sys.modules["torch_npu.dynamo.torchair"].marker == "complete"
    torchair.hook.patched = True
    calls.append(1)
loader.on_torchair_import(callback)
"""
_IMPORT = "import torch_npu, torchair\nassert torchair.marker == 'complete'\n"


@pytest.fixture
def device(tmp_path: Path) -> Path:
    for name, text in _DEVICE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "steps", [(INSTALL, _CALLBACK, _IMPORT), (_IMPORT, INSTALL, _CALLBACK), (INSTALL, _IMPORT, _CALLBACK)]
)
def test_with_cann_only_the_import_is_observed(device: Path, steps: tuple[str, ...]) -> None:
    run(
        "import os, sys\ncalls = []\n"
        + "".join(steps)
        + """
from torchair import hook
assert hook.patched and calls == [1]
assert "TORCH_DEVICE_BACKEND_AUTOLOAD" not in os.environ
assert not any(f.__module__ == loader.__name__ for f in sys.path_hooks)
assert type(hook.__loader__).__name__ == "SourceFileLoader"
assert type(sys.modules["torch_npu.dynamo.torchair"].__spec__.loader).__name__ == "SourceFileLoader"
""",
        path=device,
        TORCHAIR_AUTOFUSE_HOST="0",
        PYTHONWARNINGS="ignore::RuntimeWarning",  # the plugin's, that this is not the TorchAir it knows
    )


_BROKEN = """
import warnings
def broken():
    raise KeyError("optimize_graph")
loader.on_torchair_import(broken)
loader.on_torchair_import(lambda: calls.append(1))
"""


def test_a_failing_callback_is_a_warning_unless_strict(device: Path) -> None:
    run(
        "import sys\ncalls = []\n" + INSTALL + _BROKEN
        + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch_npu, torchair
    assert torchair.marker == "complete"
assert calls == [1]
messages = [str(w.message) for w in caught]
assert messages[0].startswith("AF302: No module named 'torchair._ge_concrete_graph'"), messages  # the plugin's own
assert messages[1:] == ["AF302: __main__.broken: KeyError: 'optimize_graph'"], messages
""",
        path=device,
        TORCHAIR_AUTOFUSE_HOST="0",
    )  # fmt: skip
    run(
        "import sys\ncalls = []\n" + INSTALL + _BROKEN
        + """
import torch_npu
try:
    import torch_npu.dynamo.torchair
except KeyError as error:
    assert error.args == ("optimize_graph",)
else:
    raise AssertionError("the failure was swallowed")
""",
        path=device,
        TORCHAIR_AUTOFUSE_HOST="0",
        TORCHAIR_AUTOFUSE_STRICT="1",
        PYTHONWARNINGS="ignore::RuntimeWarning",
    )  # fmt: skip
