"""A trace of PyTorch's profiler as a recording: the same program gives the same account."""

import json
from collections import Counter

import pytest

from benchmarks.streams import kineto_layout
from benchmarks.streams.kineto_layout import NVJET
from ncubble.analysis.kineto.trace import event_of, open_trace, read_trace, traced_kernel
from ncubble.analysis.program.record import open_program
from ncubble.analysis.program.span import SpanChoice
from ncubble.analysis.streams import recording as records
from ncubble.errors import ReportError
from ncubble.recordings import LANES, RANKS, ROOT

TRAIN = ROOT.parent / "h100-program" / "train"


def trace_of(run, folder, geometries=kineto_layout.GEOMETRY):
    path = folder / "step.json"
    path.write_text(kineto_layout.trace(kineto_layout.recorded(records.read(run).rows, geometries)))
    return path


def opened(folder, events, choice=SpanChoice(whole=True), **known):  # noqa: B008
    """What is shown of a trace of these events."""
    (folder / "t.json").write_text(kineto_layout.trace(events, known.pop("gpu", kineto_layout.DEVICE)))
    return open_trace(folder / "t.json", choice, **known)[0]


@pytest.mark.parametrize("run", [LANES / "streams-torch", TRAIN])
def test_a_trace_gives_the_account_of_the_recording_that_it_was_made_of(run, tmp_path):
    """Kinds to a fifth of a point, and causes to one point of the span: a trace does not tell how
    the driver copies and sets memory."""
    whole = SpanChoice(whole=True)
    (recorded,) = open_program(run, whole).accounts
    (traced,) = open_trace(trace_of(run, tmp_path), whole)[0].accounts
    assert traced.span.ns == pytest.approx(recorded.span.ns, rel=1e-4)
    assert traced.pct(traced.by_kind["between"]) == pytest.approx(recorded.pct(recorded.by_kind["between"]), abs=0.2)
    first, second = (Counter(), Counter())
    for account, causes in ((recorded, first), (traced, second)):
        for part in account.parts:
            if part.kind == "between":
                causes[part.name] += account.pct(part.ns)
    assert second == pytest.approx(first, abs=1.0)
    assert set(traced.by_range) == set(recorded.by_range)


def test_kernels_get_the_launch_that_they_are_and_the_rest_is_to_be_profiled_next(tmp_path):
    path = trace_of(LANES / "streams-torch", tmp_path)
    shown, _ = open_trace(path, SpanChoice(whole=True), [RANKS / "rank0"])
    (account,) = shown.accounts
    assert sum(account.pct(part.ns) for part in account.parts) == pytest.approx(100.0)
    product = account.kernels[0]
    assert (product.kernel.name, product.launches, product.match.outcome) == (NVJET, 26, "matched")
    assert product.verdict.address.endswith("rank0#2")
    assert any("not profiled: no launch with this name (41 launches, 21.7 %" in note for note in shown.notes)
    (command,) = [note for note in shown.notes if note.startswith("profile next")]
    assert "ncubble profile --kernel '^(unrolled_elementwise_kernel|reduce_kernel|" in command
    assert f"ncubble program {path} --report RUN" in command
    other, _ = open_trace(path, reports=[RANKS.parent / "h100" / "softmax_online"])
    assert any("is of a kernel of this program" in note for note in other.notes)
    with pytest.raises(ReportError, match="no report found"):
        open_trace(path, reports=[tmp_path])


def test_launches_of_one_kernel_that_solve_two_problems_have_an_account_each(tmp_path):
    """All products of cuBLAS on an H200 may have one grid: their time tells them apart."""
    told = kineto_layout.GEOMETRY[NVJET]
    events = [kineto_layout.kernel(NVJET, 1000.0 * place, us, **told) for place, us in enumerate((340, 35, 341))]
    (account,) = opened(tmp_path, events, reports=[RANKS / "rank0"]).accounts
    assert [(one.launches, bool(one.verdict)) for one in account.kernels] == [(2, True), (1, False)]
    assert account.kernels[1].lacking.startswith("other time: ")


def test_the_steps_of_the_profiler_are_the_span(tmp_path):
    events = []
    for step in range(4):
        begin = 1000.0 * step
        events.append(kineto_layout.event("user_annotation", f"ProfilerStep#{step}", begin, 900.0))
        events.append(kineto_layout.event("cuda_runtime", "cudaLaunchKernel", begin + 100, 5.0, correlation=step + 1))
        events.append(kineto_layout.kernel("k", begin + 110, 700.0, correlation=step + 1))
    (account,) = opened(tmp_path, events, None).accounts
    assert account.span.rule == "4 ranges 'ProfilerStep#*'"
    assert account.span.ns == 3_600_000


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "kernel",
        {"ph": "X", "cat": "kernel"},
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 0, "ts": 1, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": 3, "pid": 0, "ts": 1, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "ts": float("nan"), "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "ts": 1, "dur": -1},
        {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "ts": 10**400, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "a", "pid": [], "ts": 1, "dur": 1},
        {"ph": "X", "cat": ["kernel"], "name": "a", "pid": 0, "ts": "1e999", "dur": 1},
    ],
)
def test_what_is_no_kernel_is_left_alone(event):
    assert traced_kernel(event_of(json.dumps(event).encode())) is None


@pytest.mark.parametrize(
    "args", [None, [], {"grid": "8"}, {"grid": [1, 2]}, {"grid": [1, -2, 3]}, {"grid": [1, "x", 2]}]
)
def test_a_kernel_without_a_usable_grid_is_one_all_the_same(args):
    event = {"ph": "X", "cat": "Kernel", "name": "void a", "pid": "GPU 0", "ts": 1712195495505583.0, "dur": 4.928}
    traced = traced_kernel(event_of(json.dumps({**event, "args": args}).encode()))
    assert (traced.kernel.name, traced.kernel.grid, traced.device) == ("a", "", -1)
    assert traced.ns == 4928  # the length keeps its digits where times count from 1970


def test_rows_of_anything_can_be_read(tmp_path):
    odd = ['{"ph":"X","cat":"gpu_memcpy","name":"?","ts":1,"dur":2,"args":{"bytes":1e300,"stream":"x","device":-3}}']
    odd += ['{"ph":"X","cat":"cuda_runtime","name":"c","ts":-5,"dur":0,"tid":"main"}', "7", "null", '{"ph":"X"}']
    events = ",".join([*odd, kineto_layout.kernel("k", 1, 2)])
    devices = '[{"id": 1, "name": "B"}, {"id": 2}, {"id": -3, "name": "C"}]'
    (tmp_path / "t.json").write_text(f'{{"traceEvents": [{events}], "deviceProperties": {devices}}}')
    recording = read_trace(tmp_path / "t.json")
    rows = recording.rows
    assert recording.facts["devices"] == {1: "B"}
    assert sorted(rows["kind"]) == ["context", "copy", "kernel", "runtime"]
    assert rows["start_ns"].min() == 0


PROTON = [{"frame": {"name": "ROOT"}, "metrics": {"count": 0}, "children": []}, {"CUDA": {}}]
WARPS = {
    "traceEvents": [{"ph": "X", "name": "dot", "ts": 1.0, "dur": 2.0, "pid": "matmul Core0 CTA0", "tid": "warp 0"}]
}


def events_of(kind):
    return {"traceEvents": [{"ph": "X", "cat": kind, "name": "x", "ts": 1.0, "dur": 2.0, "pid": 0}]}


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.nsys-rep", b"\x00\x01", "a report of Nsight Systems"),
        ("a.sqlite", b"SQLite format 3\x00rest", "a database, as Nsight Systems exports it"),
        ("a.ncu-rep", b"NVR\x00rest", "a report of Nsight Compute"),
        ("a.ncu-repz", b"\x28\xb5\x2f\xfd", "a report of Nsight Compute"),
        ("proton.hatchet", PROTON, "a profile of Triton's Proton"),
        ("proton.chrome_trace", WARPS, "a trace of warps by Triton's Proton"),
        ("mtia.json", events_of("mtia_ccp_events"), "recorded on MTIA"),
        ("ranges.json", events_of("cuda_profiler_range"), "recorded by CUPTI's range profiler"),
        ("cpu.json", events_of("cpu_op"), "no kernels in it"),
        ("et.json", {"schema": "1.1.1-chakra.0.0.4", "nodes": []}, "an execution trace of PyTorch"),
        ("rocm.json", {"rocprofiler-sdk-tool": [{"buffer_records": {}}]}, "a trace of AMD's rocprofv3"),
        ("own.json", {"events": []}, "JSON without traceEvents"),
        ("empty.json", [], "no kernels in it"),
    ],
)
def test_what_is_no_trace_of_kernels_is_called_what_it_is(tmp_path, name, content, what):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ReportError, match=what) as refused:
        read_trace(path)
    assert refused.value.remedy and "truncated" not in refused.value.remedy


@pytest.mark.parametrize(
    ("gpu", "call", "said"),
    [
        ("AMD Instinct MI300X", "c", "AMD Instinct MI300X"),
        ("Radeon 7900", "c", "Radeon 7900"),
        ("", "hipMalloc", "a GPU of AMD"),
    ],
)
def test_a_trace_of_an_amd_gpu_says_so_and_names_nothing_to_profile(tmp_path, gpu, call, said):
    events = [kineto_layout.event("cuda_runtime", call, 0.0, 1.0), kineto_layout.kernel("k", 2, 9.0)]
    (note,) = opened(tmp_path, events, gpu=gpu).notes
    assert f"recorded on {said}: " in note


NCCL, GEMM = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", "nvjet_tst_128x256_64x4_NNT"
FILL = "void at::native::vectorized_elementwise_kernel<4>(int)"


def test_times_without_a_report_are_told_apart_by_names(tmp_path):
    names = (
        NCCL,
        GEMM,
        FILL,
        "void flash_fwd_kernel<Traits>(Params)",
        "ampere_sgemm_128x64_nn",
        "GammaBetaBackwardKernel",
    )
    events = [kineto_layout.kernel(name, 100.0 * at, 10.0 + at) for at, name in enumerate(names)]
    (account,) = opened(tmp_path, events).accounts
    told = {part.name: round(part.ns / 1e3) for part in account.parts if part.kind == "unprofiled"}
    assert told == {"communication": 10, "tensor kernels by name": 11 + 13, "other kernels": 12 + 14 + 15}


def test_what_to_profile_next_has_a_limit_and_leaves_communication_out(tmp_path):
    """Of each step one launch of a product and 300 of a fill, which take minutes under ncu."""
    events = [kineto_layout.kernel(GEMM, -50.0 + at, 1.0) for at in range(2)]
    for step in range(3):
        begin = 10_000.0 * step
        events.append(kineto_layout.event("user_annotation", f"ProfilerStep#{step}", begin, 9000.0))
        for at, (name, us) in enumerate([(NCCL, 400.0), (GEMM, 600.0), *[(FILL, 3.0)] * 300]):
            events.append(kineto_layout.kernel(name, begin + 2000 + 10 * at, us, correlation=1000 * step + at + 1))
    command, left_out = opened(tmp_path, events, None).notes
    assert f"--kernel '^({GEMM})$' --skip 2 --count 1 --out RUN" in command
    assert "wait for other GPUs: ncclDevKernel_AllReduce_Sum_bf16_RING_LL, " in left_out
    command, left_out = opened(tmp_path, [one for one in events if GEMM not in one], None).notes
    assert "vectorized_elementwise_kernel)$' --count 200 --out RUN" in command


def test_ranks_that_were_merged_are_told_apart_or_that_is_said(tmp_path):
    def launches(*prefixes):
        shown = opened(tmp_path, [event for rank, prefix in enumerate(prefixes) for event in of_rank(rank, prefix)])
        return [(one.process, one.kernels[0].launches) for one in shown.accounts], shown.notes[0]

    def of_rank(rank, prefix):
        for at in (1, 2):
            call = kineto_layout.event("cuda_runtime", "c", 100.0 * at + rank, 5.0, process=70 + rank, correlation=at)
            for event in (call, kineto_layout.kernel("k", 100.0 * at + 10 + 30 * rank, 20.0, correlation=at)):
                yield event.replace('"pid": ', '"pid": "' + prefix).replace(', "tid"', '", "tid"')

    told, note = launches("[TP00] ", "[TP01] ")
    assert told == [(1, 2), (2, 2)] and "processes call CUDA" not in note
    told, note = launches("", "")
    assert told == [(1, 4)] and "2 processes call CUDA: ranks were merged" in note


def test_events_of_a_negative_duration_are_counted(tmp_path):
    shown = opened(tmp_path, [kineto_layout.kernel("k", 20.0 * at, us) for at, us in enumerate((9.0, -3.0))])
    assert [kernel.launches for kernel in shown.accounts[0].kernels] == [1]
    assert shown.notes[0] == "events of a negative duration, which are left out: 1"
