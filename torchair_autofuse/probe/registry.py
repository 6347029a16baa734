"""All probes, in the order of docs/hardware-assumptions.md: exactly one record per entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchair_autofuse.probe import graph, host
from torchair_autofuse.probe.families import calls, casts, copies, cores, lanes, timing, values
from torchair_autofuse.probe.record import Case, Graph, Host, Kernel, NoProbe, Probe, Timing
from torchair_autofuse.soc.chip import Chip


@dataclass(frozen=True)
class _Same:
    """Cases that are the same for every chip."""

    make: Callable[[], tuple[Case, ...]]

    def __call__(self, chip: Chip) -> tuple[Case, ...]:
        return self.make()


def _meeting(chip: Chip) -> tuple[Case, ...]:
    return cores.meet(chip.vector_cores)


def _kernel(make: Callable[[], tuple[Case, ...]]) -> Kernel:
    return Kernel(_Same(make))


PROBES: tuple[Probe, ...] = (
    Probe(
        "H1",
        "NaN in Max and Min",
        "Max, Min, Maxs and Mins give NaN when an operand is NaN",
        _kernel(values.nan_of_max_min),
    ),
    Probe(
        "H2", "overflow of narrow floats", "f32 to f16 and bf16 overflows to infinity", _kernel(casts.narrow_overflow)
    ),
    Probe("H3", "float to integer", "a Cast to int32 or int64 saturates, NaN gives 0", _kernel(casts.saturation)),
    Probe(
        "H4",
        "rounding to integral values",
        "Cast from float to float rounds by its mode",
        _kernel(casts.integral_values),
    ),
    Probe("H5", "IEEE arithmetic", "Add, Sub, Mul, Div, Sqrt of f32 are IEEE, subnormals kept", _kernel(values.ieee)),
    Probe("H6", "Exp and Ln", "Exp and Ln are good to one unit in the last place", _kernel(values.exp_and_log)),
    Probe("H7", "high-level calls", "high-level calls are accurate over the whole domain", _kernel(calls.accuracy)),
    Probe("H8", "wide angles", "Sin and Cos take any argument", _kernel(calls.wide_angles)),
    Probe("H9", "Select of int32", "Select moves int32 bits as float unchanged", _kernel(values.select_moves_bits)),
    Probe("H10", "order of int32", "Min, Max and Compare EQ order signed int32", _kernel(values.order_of_i32)),
    Probe("H11", "comparisons with NaN", "comparisons with NaN are false, NE is true", _kernel(values.compares_of_nan)),
    Probe("H12", "integers wrap", "int32 and int16 arithmetic wraps", _kernel(values.wraps)),
    Probe(
        "H13",
        "loads stay in their block",
        "DataCopyPad to UB writes no byte behind the last block",
        _kernel(copies.load_stays_in_block),
    ),
    Probe(
        "H14",
        "stores are byte-exact",
        "DataCopyPad to GM writes exactly the bytes of each row",
        _kernel(copies.store_is_exact),
    ),
    Probe("H15", "addresses of tensors", "GM tensors start on a 32-byte block", Graph(graph.addresses)),
    Probe(
        "H16",
        "neighbouring stores",
        "stores of one core to parts of a block do not disturb each other",
        _kernel(copies.neighbouring_tiles),
    ),
    Probe(
        "H17",
        "input written in place",
        "vector instructions may write into a VECIN buffer",
        _kernel(copies.in_place_input),
    ),
    Probe("H18", "counts of Compare", "Compare by count covers multiples of 256 bytes", _kernel(lanes.compare_counts)),
    Probe("H19", "strides", "block stride 0 and repeat strides to 255 are accepted", _kernel(lanes.strides)),
    Probe(
        "H20",
        "vector barriers",
        "PipeBarrier<PIPE_V> between dependent instructions is enough",
        _kernel(lanes.barriers),
    ),
    Probe(
        "H21",
        "temporary buffers",
        "kernels give high-level calls the bytes they take at full speed",
        Host(host.temporaries),
    ),
    Probe(
        "H22",
        "reserved UB",
        "Select and calls built on it use the top 8 KB of UB on 2201",
        NoProbe("the safe side: every kernel keeps these bytes free, whatever uses them"),
    ),
    Probe("H23", "live tensors", "8 tensors per position and 56 buffers work at once", _kernel(copies.live_tensors)),
    Probe("H24", "chip facts", "UB size, core count and clock of chips.toml", Host(host.platform)),
    Probe("H25", "op without registration", "GE takes a node of a fused op", Graph(graph.unregistered_op)),
    Probe("H26", "inference rule", "GE infers symbolic shapes by _inference_rule", Graph(graph.symbolic_shapes)),
    Probe("H27", "host code", "generated op_host.cpp compiles against CANN's headers", Host(host.host_code)),
    Probe("H28", "device code", "generated kernels compile with CANN's device compiler", Host(host.device_code)),
    Probe(
        "H29",
        "order of updates in place",
        "an update in place waits for readers of the old value",
        Graph(graph.written_in_place),
    ),
    Probe(
        "H30",
        "SyncAll",
        "SyncAll waits for every core, and what was stored before is seen after",
        Kernel(_meeting, all_cores=True),
    ),
    Probe(
        "H31", "workspace", "the user's workspace starts on a 32-byte block and has its bytes", _kernel(cores.workspace)
    ),
    Probe(
        "H32",
        "lanes inside UB",
        "reductions, gathers and turns read and write the lanes that were assumed",
        _kernel(lanes.inside_ub),
    ),
    Probe("H33", "cost of a launch", "launch_us", Timing(timing.launches()), (2201,)),
    Probe("H34", "head of a kernel", "head_cycles, head_cycles_per_core", Timing(timing.heads()), (2201,)),
    Probe("H35", "rates of copies", "load_bytes_per_cycle, store_bytes_per_cycle", Timing(timing.copies()), (2201,)),
    Probe("H36", "cost of instructions", "cycles are k * elements + b", Timing(timing.instructions()), (2201,)),
    Probe(
        "H37",
        "numbers of 3510",
        "the cost table of 3510",
        Timing((*timing.launches(), *timing.heads(), *timing.copies(), *timing.instructions())),
        (3510,),
    ),
    Probe(
        "H38", "several TPipes", "a TPipe may follow another one, with all of UB and all events", _kernel(cores.scopes)
    ),
    Probe(
        "H39",
        "patterns of one's own",
        "GatherMask in counter mode takes a pattern per row",
        _kernel(lanes.own_patterns),
    ),
    Probe(
        "H40",
        "scalar writes",
        "SetValue and vector instructions see each other after flags",
        _kernel(lanes.scalar_writes),
    ),
    Probe("H41", "CMake functions", "CANN's CMake package has the npu_op functions", Host(host.cmake_functions)),
    Probe(
        "H42",
        "package moved",
        "an installed package may be moved",
        NoProbe("needs a package: step 4 of docs/deploy-package.md decides it"),
    ),
    Probe(
        "H43",
        "rules of a package",
        "GE accepts a package whose tree keeps the rules",
        NoProbe("needs a package: step 4 of docs/deploy-package.md decides it"),
    ),
    Probe(
        "H44", "host code in two standards", "host code is accepted as C++11 and as C++17", Host(host.both_standards)
    ),
    Probe(
        "H45",
        "patch releases",
        "a package runs with any patch release of the CANN that built it",
        NoProbe("needs two releases of CANN: build with one, run with the other"),
    ),
    Probe(
        "H46",
        "when GE reads the path",
        "GE reads ASCEND_CUSTOM_OPP_PATH when TorchAir initialises it",
        NoProbe("needs a package: step 4 of docs/deploy-package.md decides it"),
    ),
    Probe("H47", "ops at any time", "GE finds ops that are registered after it has started", Graph(graph.late_ops)),
    Probe("H48", "headers and libraries", "the runtime library builds against CANN", Host(host.runtime_library)),
    Probe(
        "H49", "launch arguments", "arguments and tiling reach a kernel launched directly", Graph(graph.many_arguments)
    ),
    Probe("H50", "entry as a function", "the entry of kernel.cpp becomes a plain function", Host(host.direct_entry)),
    Probe("H51", "kernels that meet", "SyncAll works in a direct launch", Graph(graph.meeting_blocks), (2201,)),
    Probe("H52", "workspace of JIT", "MallocWorkSpace needs no system part", Graph(graph.meeting_blocks), (2201,)),
    Probe("H53", "device binaries", "a device binary loads without options", Host(host.plain_load, npu=True)),
    Probe(
        "H54",
        "launches of static graphs",
        "a static graph keeps its launch and takes new inputs",
        Graph(graph.run_again),
    ),
    Probe("H55", "dense tensors", "GE hands dense ND tensors to a fused op", Graph(graph.formats)),
    Probe("H56", "name of the SoC", "the runtime's name of the SoC is in chips.toml", Host(host.soc_name, npu=True)),
)


def select(ids: Sequence[str]) -> list[Probe]:
    """The probes with these ids (all without any), in order. Raises ValueError for an unknown id."""
    known = {p.id.lower(): p for p in PROBES}
    unknown = [i for i in ids if i.lower() not in known]
    if unknown:
        raise ValueError(f"no probe {unknown[0]!r}; there are {PROBES[0].id} to {PROBES[-1].id} (--list)")
    wanted = {i.lower() for i in ids}
    return [p for p in PROBES if not ids or p.id.lower() in wanted]
