"""The graph format loads without torchair, and beside it, in either order."""

import subprocess
import sys

import pytest

OURS = "from torchair_autofuse.ge.proto import ge_ir; m = ge_ir(); d = m.ModelDef(name='m').SerializeToString()"
THEIRS = """
import importlib.metadata, sys, types
folder = str(importlib.metadata.distribution('torch_npu').locate_file('torch_npu/dynamo/torchair'))
for name, sub in (('torchair', ''), ('torchair._ge_concrete_graph', '/_ge_concrete_graph'), ('torchair.core', '/core')):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder + sub]
utils = types.ModuleType('torchair.core.utils')
utils.logger = types.SimpleNamespace(debug=lambda *a: None)
sys.modules['torchair.core.utils'] = utils
import torchair._ge_concrete_graph.ge_ir_pb2 as t
"""
CHECK = """
assert t.ModelDef.FromString(d).name == 'm'
assert m.ModelDef.FromString(t.ModelDef(name='n').SerializeToString()).name == 'n'
op = t.ModelDef().graph.add().op.add()
op.CopyFrom(m.OpDef(name='a'))          # a message of one side is one of the other
assert ge_ir() is t and op.name == 'a'
"""


@pytest.mark.parametrize("script", [OURS + THEIRS + CHECK, THEIRS + OURS + CHECK], ids=["ours first", "theirs first"])
def test_both_orders(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_is_imported() -> None:
    script = OURS + "; import sys; assert not {'torch', 'torch_npu', 'torchair'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchair_autofuse.ge import proto

    monkeypatch.setattr(proto.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "torch_npu", raising=False)
    with pytest.raises(ImportError, match="torch_npu wheel"):
        proto._torchair_folder()
