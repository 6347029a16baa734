"""TorchInductor's schedule for a GPU that is not there: lowering and fusion, nothing generated and nothing executed.

The process is made to believe in an A100; tensors are fake. Only for a process of its own.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
from torch._inductor.graph import GraphLowering

from benchmarks.inductor_worker import cases, failed
from benchmarks.models import Model
from benchmarks.section import Settings

_A100 = dict(
    name="A100", major=8, minor=0, multi_processor_count=108, total_memory=80 << 30, warp_size=32, gcnArchName="",
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
    shared_memory_per_block=49152, shared_memory_per_block_optin=166912, shared_memory_per_multiprocessor=167936,
    L2_cache_size=40 << 20, memory_clock_rate=1215000, memory_bus_width=5120, clock_rate=1410000,
)  # fmt: skip


def on_gpu(models: str, settings: Settings) -> list[dict[str, Any]]:
    """Kernels and bytes of every case on a GPU of the record above."""
    from torch._inductor.fx_passes import joint_graph, post_grad
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    for module in (joint_graph, post_grad):  # their pattern tables are traced on the CPU, before the pretence starts
        module.lazy_init(torch.device("cpu"))
        module.lazy_init = lambda *args, **kwargs: None
    with _pretend():
        fake = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
        return [_one(label, model, dtype, fake) for label, model, dtype in cases(models, settings)]


def _one(label: str, model: Model, dtype: Any, fake: Any) -> dict[str, Any]:
    torch._dynamo.reset()
    options = {"fx_graph_cache": False, "force_disable_caches": True, "joint_graph_constant_folding": False}
    try:
        with torch.no_grad(), inductor_config.patch(options):
            return {**_lower(model, dtype, fake), "label": label}
    except Exception as error:  # one model must not hide the others
        return failed(label, error)


def _lower(model: Model, dtype: Any, fake: Any) -> dict[str, Any]:
    from torch._inductor.compile_fx import select_decomp_table, view_to_reshape
    from torch._inductor.debug import DebugContext
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.fx_passes.post_grad import post_grad_passes
    from torch._inductor.scheduler import NopKernelSchedulerNode
    from torch._inductor.virtualized import V
    from torch.fx.experimental.proxy_tensor import make_fx

    real = model.make(dtype)
    plain = make_fx(_as_tuple(model), tracing_mode="fake")(*real)  # indexing asks a real device before it dispatches
    with fake:
        inputs = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda") for t in real]
        graph = make_fx(plain, decomposition_table=select_decomp_table(), tracing_mode="real")(*inputs)
    with V.set_fake_mode(fake):
        joint_graph_passes(graph)
        view_to_reshape(graph)
        post_grad_passes(graph, True)
        lowering = GraphLowering(
            graph, example_inputs=inputs, shape_env=fake.shape_env, is_inference=True, const_module=None
        )
        with V.set_graph_handler(lowering), V.set_debug_handler(DebugContext()), V.set_real_inputs(inputs):
            lowering.run(*inputs)
            lowering._update_scheduler()  # fuses; the code itself would need Triton
            nodes = [
                n for n in lowering.scheduler.nodes if not (n.is_extern() or isinstance(n, NopKernelSchedulerNode))
            ]
            return {
                "label": "",
                "kernels": len(nodes),
                "bytes": int(lowering.count_bytes()[0]),
                "seconds": None,
                "error": "",
            }


def _as_tuple(model: Model) -> Any:
    def call(*inputs: Any) -> Any:
        outputs = model.function(*inputs)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    return call


@contextlib.contextmanager
def _pretend() -> Iterator[None]:
    """Everything Inductor asks of a CUDA device answers for the A100."""
    from torch._dynamo.device_interface import CudaInterface

    record = types.SimpleNamespace(**_A100)

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    answers: list[tuple[Any, str, Any]] = [
        (torch.cuda, "is_available", lambda: True),
        (torch.cuda, "device_count", lambda: 1),
        (torch.cuda, "current_device", lambda: 0),
        (torch.cuda, "get_device_properties", lambda *args: record),
        (torch.cuda, "get_device_capability", lambda *args: (8, 0)),
        (torch.cuda, "get_device_name", lambda *args: record.name),
        (torch.cuda, "synchronize", nothing),
        (torch.cuda, "_lazy_init", nothing),
        (torch.version, "cuda", "12.6"),
        (CudaInterface, "is_available", staticmethod(lambda: True)),
        (CudaInterface, "get_device_properties", staticmethod(lambda *args: record)),
        (CudaInterface, "get_compute_capability", staticmethod(lambda *args: 80)),
        (CudaInterface, "current_device", staticmethod(lambda: 0)),
        (CudaInterface.Worker, "get_device_properties", staticmethod(lambda *args: record)),
        (CudaInterface.Worker, "current_device", staticmethod(lambda: 0)),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, answer in answers:
            stack.enter_context(mock.patch.object(owner, name, answer))
        stack.enter_context(
            mock.patch.object(CudaInterface, "raise_if_triton_unavailable", staticmethod(nothing), create=True)
        )
        stack.enter_context(mock.patch("torch._inductor.scheduler.has_triton", lambda: True))
        stack.enter_context(mock.patch("torch.utils._triton.triton_hash_with_backend", lambda: "none"))
        yield
