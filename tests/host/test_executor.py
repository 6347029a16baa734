"""The executor's contract: scheduling, inputs and outputs, errors. Ops are tested elsewhere."""

import sys
import types
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from torchair_autofuse.ge.proto import ge_ir
from torchair_autofuse.host.executor import GraphExecutor

PROTO = {torch.float32: 1, torch.float16: 2, torch.int64: 8, torch.int32: 7, torch.bool: 11, torch.bfloat16: 27}
C = {torch.float32: 0, torch.float16: 1, torch.int64: 9, torch.int32: 3, torch.bool: 12, torch.bfloat16: 27}


class Model:
    """Builds a ModelDef node by node, in the order of the calls."""

    def __init__(self) -> None:
        self.model = ge_ir().ModelDef(name="m")
        self.graph = self.model.graph.add(name="g")

    def op(self, kind: str, name: str, *inputs: str, outputs: int = 1, **attrs: Any) -> str:
        node = self.graph.op.add(name=name, type=kind)
        node.input.extend(inputs)
        for i, ref in enumerate(r for r in inputs if not r.endswith(":-1")):
            desc = node.input_desc.add(name=f"x{i}")
            if not ref:
                desc.attr["_is_unfed_optional"].i = 1
        for i in range(outputs):
            node.output_desc.add(name=f"y{i}", dtype=1)
        for key, value in attrs.items():
            slot = node.attr[key]
            if isinstance(value, bool):
                slot.b = value
            elif isinstance(value, int):
                slot.i = value
            elif isinstance(value, float):
                slot.f = value
            elif isinstance(value, str):
                slot.s = value.encode()
            else:
                slot.list.i.extend(value)
        return f"{name}:0"

    def data(
        self, name: str, index: int, dims: Sequence[int], dtype: torch.dtype = torch.float32, kind: str = "Data"
    ) -> str:
        ref = self.op(kind, name, index=index)
        desc = self.graph.op[-1].output_desc[0]
        desc.dtype = PROTO[dtype]
        desc.shape.dim.extend(dims)
        return ref

    def const(self, name: str, value: torch.Tensor) -> str:
        ref = self.op("Const", name)
        tensor = self.graph.op[-1].attr["value"].t
        tensor.desc.dtype = PROTO[value.dtype]
        tensor.desc.shape.dim.extend(value.shape)
        tensor.data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return ref

    def output(self, *refs: str) -> "Model":
        self.op("NetOutput", "NetOutput", *refs, outputs=0)
        return self

    def load(self, *dtypes: torch.dtype, inputs: int = 1, also: Sequence[str] = ()) -> GraphExecutor:
        codes = [C[d] for d in dtypes]
        model = self.model.SerializeToString()
        return GraphExecutor(model, output_dtypes=codes, input_placements=[1] * inputs, also=also)


F32, F16, BF16, I64 = torch.float32, torch.float16, torch.bfloat16, torch.int64


def test_unsorted_nodes_and_data_by_index() -> None:
    m = Model().output("sub:0")
    m.op("Sub", "sub", "neg:0", "b:0")
    m.op("Neg", "neg", "a:0")
    m.data("b", 1, [3])
    m.data("a", 0, [3], kind="RefData")
    a, b = torch.tensor([1.0, 2, 3]), torch.tensor([10.0, 20, 30])
    (y,) = m.load(F32, inputs=2).run([a, b], [])
    assert torch.equal(y, -a - b)


def test_long_chain_does_not_recurse() -> None:
    m = Model()
    ref = m.data("a", 0, [2])
    for i in range(3000):
        ref = m.op("Neg", f"n{i}", ref)
    (y,) = m.output(ref).load(F32).run([torch.ones(2)])
    assert torch.equal(y, torch.ones(2))


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(1.5),
        torch.tensor([1.0, -2.5, float("inf")], dtype=BF16),
        torch.tensor([[1, 2], [3, -4]]),
        torch.tensor([True, False]),
        torch.zeros(0, 3),
        torch.tensor([6e-8, 65504.0], dtype=F16),
    ],
    ids=str,
)
def test_const(value: torch.Tensor) -> None:
    m = Model()
    executor = m.output(m.const("c", value)).load(value.dtype, inputs=0)
    (y,) = executor.run([])
    assert y.dtype == value.dtype and torch.equal(y, value)
    if y.numel():
        y.zero_()
        assert torch.equal(executor.run([])[0], value), "a caller must not be able to change a constant"


def test_const_of_wrong_size() -> None:
    m = Model()
    m.output(m.const("c", torch.ones(3)))
    m.graph.op[0].attr["value"].t.desc.shape.dim[0] = 4
    with pytest.raises(RuntimeError, match=r"Const c: attribute value: 12 bytes of data do not fill f32\[4\]"):
        m.load(F32, inputs=0)


def test_dead_unknown_is_fine_and_live_ones_are_reported_together() -> None:
    m = Model()
    a = m.data("a", 0, [2])
    m.op("NoSuchOp", "dead", a)
    relu = m.op("Relu", "r", a)
    assert torch.equal(m.output(relu).load(F32).run([torch.ones(2)])[0], torch.ones(2))
    m = Model()
    a = m.data("a", 0, [2])
    x = m.op("StrangeA", "s1", a)
    m.graph.op[-1].output_desc[0].attr["_fx_tensor_name"].s = b"mul_7-aten.mul.Tensor.OUTPUT.0"
    y = m.op("StrangeB", "s2", m.op("StrangeA", "s3", x))
    with pytest.raises(RuntimeError) as caught:
        m.output(y).load(F32)
    text = str(caught.value)
    assert "AF401" in text
    assert "StrangeA: node s1 (from mul_7-aten.mul.Tensor) and 1 more" in text and "StrangeB: node s2" in text


def test_control_edge_keeps_a_node_alive_and_orders_it() -> None:
    m = Model()
    a = m.data("a", 0, [2])
    m.op("StrangeB", "side", a)
    with pytest.raises(RuntimeError, match="StrangeB"):
        m.output(m.op("Neg", "n", "side:-1", a)).load(F32)
    m = Model()
    a = m.data("a", 0, [2])
    m.op("Abs", "other", a)
    m.output("other:-1", m.op("Neg", "n", a, "other:-1"))
    executor = m.load(F32)
    x = torch.tensor([1.0, -2.0])
    assert torch.equal(executor.run([x])[0], -x)
    assert torch.equal(executor.run_all([x])["other:0"], x.abs())


def test_absent_optional_input() -> None:
    m = Model()
    a = m.data("a", 0, [2])
    m.output(m.op("Sxpy", "s", a, a, ""))
    assert torch.equal(m.load(F32).run([torch.ones(2)])[0], torch.zeros(2))


def test_outputs_share_no_memory() -> None:
    m = Model()
    a = m.data("a", 0, [2, 3])
    neg = m.op("Neg", "n", a)
    other = m.op("Relu", "r", neg)
    outputs = m.output(a, neg, neg, a, other).load(*[F32] * 5)
    x = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    ys = outputs.run([x])
    for y, want in zip(ys, (x, -x, -x, x, torch.zeros(2, 3))):
        assert torch.equal(y, want) and y.stride() == (3, 1) and not y.requires_grad
    assert len({y.data_ptr() for y in [*ys, x]}) == 6


def test_views_become_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchair_autofuse.host.ops import OPS

    monkeypatch.setitem(OPS, "TestView", lambda call: call.tensor(0).t()[1:])
    m = Model()
    (y,) = m.output(m.op("TestView", "v", m.op("Neg", "n", m.data("a", 0, [2, 3])))).load(F32).run([torch.ones(2, 3)])
    assert y.shape == (2, 2) and y.is_contiguous() and y.untyped_storage().nbytes() == 16


def test_assigned_outputs() -> None:
    """Two inputs swapped in place, and a third output that is the old value of an input."""
    m = Model()
    a, b = m.data("a", 0, [2]), m.data("b", 1, [2])
    executor = m.output(b, a, m.op("Identity", "i", a)).load(F32, F32, F32, inputs=2)
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    out = executor.run([x, y], [x, y, None])
    assert out[0] is x and out[1] is y
    assert x.tolist() == [3.0, 4.0] and y.tolist() == [1.0, 2.0] and out[2].tolist() == [1.0, 2.0]


def test_assigned_into_a_strided_parameter() -> None:
    m = Model()
    executor = m.output(m.op("Neg", "n", m.data("a", 0, [2, 2]))).load(F32)
    target = torch.nn.Parameter(torch.zeros(2, 2).t())
    (y,) = executor.run([torch.ones(2, 2)], [target])
    assert y is target and torch.equal(target.detach(), -torch.ones(2, 2))
    with pytest.raises(RuntimeError, match=r"output 0 of graph g is f32\[2, 2\], but is to be written into f32\[3\]"):
        executor.run([torch.ones(2, 2)], [torch.zeros(3)])
    with pytest.raises(RuntimeError, match="2 assigned outputs given, but the graph has 1 outputs"):
        executor.run([torch.ones(2, 2)], [None, None])


def test_f32_outputs_declared_as_halves_are_rounded() -> None:
    """As the mean of a half layer norm is by PyTorch on the CPU."""
    m = Model()
    executor = m.output(m.op("Neg", "n", m.data("a", 0, [2]))).load(F16)
    x = torch.tensor([0.1, 1e9])
    assert torch.equal(executor.run([x])[0], (-x).half())
    target = torch.zeros(2, dtype=torch.float16)
    assert executor.run([x], [target])[0] is target and torch.equal(target, (-x).half())


def test_nodes_that_no_output_needs() -> None:
    m = Model()
    a = m.data("a", 0, [2])
    m.op("Neg", "n", a)
    model = m.output(m.op("Abs", "y", a))
    ran: list[str] = []

    def watch(function: Any, call: Any) -> Any:
        ran.append(call.name)
        return function(call)

    executor = model.load(F32, also=["n"])
    executor.run_by([torch.ones(2)], watch)
    assert sorted(ran) == ["n", "y"] and executor.run([torch.ones(2)])[0].tolist() == [1.0, 1.0]


def test_output_dtype_mismatch() -> None:
    m = Model()
    executor = m.output(m.op("Neg", "n", m.data("a", 0, [2]))).load(I64)
    with pytest.raises(RuntimeError, match=r"output 0 of graph g \(n:0\) is f32\[2\], but i64 is expected"):
        executor.run([torch.ones(2)])


def test_dynamic_shapes() -> None:
    m = Model()
    a, b = m.data("a", 0, [-1, -1]), m.data("b", 1, [-2])
    executor = m.output(m.op("Add", "s", a, b)).load(F32, inputs=2)
    for shape in ((2, 3), (1, 7), (0, 4)):
        x = torch.randn(shape)
        assert torch.equal(executor.run([x, torch.ones(shape[-1])])[0], x + 1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([torch.ones(3)], r"input 0 \(a\) is f32\[3\], the graph was built for f32\[-1, 2\]"),
        ([torch.ones(1, 3)], r"is f32\[1, 3\]"),
        ([torch.ones(1, 2, dtype=F16)], r"is f16\[1, 2\], the graph was built for f32\[-1, 2\]"),
        ([None], r"must be a plain torch.Tensor, not NoneType"),
        ([torch.ones(1, 2, device="meta")], r"is on meta: the host executor takes CPU tensors"),
        ([], r"graph g takes 1 inputs, 0 given"),
    ],
)
def test_bad_inputs(bad: list[Any], message: str) -> None:
    m = Model()
    executor = m.output(m.op("Neg", "n", m.data("a", 0, [-1, 2]))).load(F32)
    with pytest.raises(RuntimeError, match=message):
        executor.run(bad)


def _cycle(m: Model) -> None:
    m.op("Add", "x", "y:0", "y:0")
    m.op("Neg", "y", "x:0")
    m.output("x:0")


def _two_of_a_name(m: Model) -> None:
    m.data("a", 0, [1])
    m.data("a", 0, [1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (_cycle, "cycle through x and y"),
        (_two_of_a_name, "two nodes of graph g are called a"),
        (lambda m: m.data("a", 0, [1]), "has one NetOutput, this one has 0"),
        (lambda m: m.output("gone:0"), "NetOutput reads gone:0, but no node is called gone"),
        (lambda m: m.output(m.data("a", 0, [1]).replace("0", "1")), "NetOutput reads a:1, but a has 1 outputs"),
        (lambda m: m.output(m.data("a", 5, [1])), "Data a has index 5, but the graph has 1 inputs"),
        (lambda m: m.output(""), "output 0 of graph g is not connected"),
        (lambda m: m.output(m.data("a", 0, [1]), "a:0"), "has 2 outputs, but 1 output dtypes were given"),
        (lambda m: (m.data("a", 0, [1]), m.output("a")), "malformed input 'a': expected node:index"),
    ],
)
def test_malformed_graphs(build: Any, message: str) -> None:
    m = Model()
    build(m)
    with pytest.raises(RuntimeError, match=message):
        m.load(F32)


def test_not_a_model() -> None:
    with pytest.raises(RuntimeError, match="not a serialized ModelDef"):
        GraphExecutor(b"\xff\xff\xff", output_dtypes=[], input_placements=[])
    with pytest.raises(RuntimeError, match="holds no graph"):
        GraphExecutor(b"", output_dtypes=[], input_placements=[])


def test_error_inside_an_op_names_it() -> None:
    m = Model()
    a, b = m.data("a", 0, [2]), m.data("b", 1, [3], F16)
    y = m.op("Add", "bad_sum", a, b)
    m.graph.op[-1].output_desc[0].attr["_fx_tensor_name"].s = b"add_3-aten.add.Tensor.OUTPUT.0"
    executor = m.output(y).load(F32, inputs=2)
    where = r"Add bad_sum \(from add_3-aten.add.Tensor\) on \(f32\[2\], f16\[3\]\): operands must have one dtype"
    with pytest.raises(RuntimeError, match=where):
        executor.run([torch.ones(2), torch.ones(3, dtype=F16)])


def test_attrs_become_python_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchair_autofuse.host.ops import OPS

    seen: list[Any] = []

    def spy(call: Any) -> torch.Tensor:
        seen.append(dict(call.attrs))
        assert call.input_names == ("x0",) and call.n_outputs == 1
        return call.tensor(0)

    monkeypatch.setitem(OPS, "TestSpy", spy)
    m = Model()
    y = m.op("TestSpy", "s", m.data("a", 0, [1]), i=-3, f=0.1, b=False, s="half", li=[1, 2], empty=[])
    attr = m.graph.op[-1].attr
    attr["names"].list.s.extend([b"u", b"v"])
    attr["lf"].list.f.extend([0.5])
    attr["rows"].list_list_int.list_list_i.add().list_i.extend([4, 5])
    attr["type"].dt = 9
    attr["unset"].SetInParent()
    m.output(y).load(F32).run([torch.ones(1)])
    want = {"i": -3, "f": pytest.approx(0.1, abs=1e-8), "b": False, "s": "half", "li": [1, 2], "empty": []}
    assert seen == [{**want, "names": ["u", "v"], "lf": [0.5], "rows": [[4, 5]], "type": 9}]


def test_fused_node_runs_through_its_kernel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    class Kernel:
        def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            assert all(t.is_contiguous() for t in inputs)
            return [inputs[0] + 1, inputs[0].sum()]

    def load(op_type: str) -> Kernel:
        loaded.append(op_type)
        return Kernel()

    from torchair_autofuse.host.ops import OPS

    monkeypatch.setitem(sys.modules, "torchair_autofuse.host.kernels", types.SimpleNamespace(load=load))
    monkeypatch.setitem(OPS, "TestView", lambda call: call.tensor(0).t())
    m = Model()
    view = m.op("TestView", "v", m.data("a", 0, [2, 3]))
    m.op("AutofusePointwiseK0123456789ab", "k", view, outputs=2)
    executor = m.output("k:0", "k:1").load(F32, F32)
    assert loaded == ["AutofusePointwiseK0123456789ab"], "a missing kernel is found at load"
    y, total = executor.run([torch.ones(2, 3)])
    assert torch.equal(y, torch.full((3, 2), 2.0)) and total.item() == 6


def test_run_all_gives_every_live_tensor() -> None:
    m = Model()
    a, c = m.data("a", 0, [2]), m.const("c", torch.tensor(2.0))
    m.op("Neg", "dead", a)
    executor = m.output(m.op("Neg", "n", m.op("Mul", "p", a, c))).load(F32)
    values = executor.run_all([torch.tensor([1.0, 2.0])])
    assert {k: v.tolist() for k, v in values.items()} == {"a:0": [1, 2], "c:0": 2, "p:0": [2, 4], "n:0": [-2, -4]}


def test_values_are_freed_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import weakref

    from torchair_autofuse.host.ops import OPS

    made: list[Any] = []

    def make(call: Any) -> torch.Tensor:
        assert sum(r() is not None for r in made) <= 1, "only the value that is read next may be alive"
        y = call.tensor(0) + 1
        made.append(weakref.ref(y))
        return y

    monkeypatch.setitem(OPS, "TestMake", make)
    m = Model()
    ref = m.data("a", 0, [2])
    for i in range(5):
        ref = m.op("TestMake", f"m{i}", ref)
    assert m.output(ref).load(F32).run([torch.zeros(2)])[0].tolist() == [5, 5]
