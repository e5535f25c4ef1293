"""The account of a program from real recordings: a PyTorch loop with the product that it runs, as
profiled, and a pipeline with its kernel."""

import json
from collections import Counter

import pytest

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.program import record as program_record
from ncubble.analysis.program.account import (
    BETWEEN,
    KINDS,
    MEMORY,
    UNPROFILED,
    KernelTime,
    PartTime,
    ProfiledLaunch,
    ProgramAccount,
    own_finder,
    program_work,
    spans_of,
)
from ncubble.analysis.program.kernels import ProgramKernel
from ncubble.analysis.program.output import kernel_rows, range_rows, with_rest
from ncubble.analysis.program.record import ProgramRecord, doubts, is_program, open_program
from ncubble.analysis.program.selection import select
from ncubble.analysis.program.span import MeasuredSpan, SpanChoice
from ncubble.analysis.report.report import LaunchIdentity
from ncubble.analysis.streams.account import accounts
from ncubble.analysis.streams.recording import Recording, read
from ncubble.errors import ReportError, UsageError
from ncubble.profiling.ncu import Filters
from tests.helpers.recorded_programs import BLOCK, ONE, PRODUCT, RECORDINGS, TORCH, program_of, two_kernels
from tests.helpers.stream_frames import Script

PIPELINE, CHUNK = RECORDINGS / "h200-lanes/streams-pipeline", RECORDINGS / "h200/stream_pipeline/default"


@pytest.fixture(scope="module")
def torch():
    return open_program(TORCH, others=[PRODUCT])


def test_a_torch_loop_is_tensor_work_losses_inside_and_between_and_what_was_not_profiled(torch):
    (account,) = torch.accounts
    assert sum(account.pct(part.ns) for part in account.parts) == pytest.approx(100.0)
    product = account.kernels[0]
    assert product.kernel.function == "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
    assert product.launches == 24
    assert product.stretched == pytest.approx(0.9957, abs=0.001)
    tensor = product.verdict.account["tensor_busy"] / 100 * product.ns
    assert account.by_kind["tensor"] == pytest.approx(tensor)
    assert account.covered_pct == pytest.approx(100 * product.ns / sum(one.ns for one in account.kernels))
    assert {part.name for part in account.parts if part.kind == "inside"} <= set(PARTS)
    assert sum(part.ns for parts in account.by_range.values() for part in parts) == pytest.approx(account.span.ns)


def test_a_recorded_training_step_is_accounted_for_by_its_ranges():
    """The whole path, from a GPU: every selected kernel has its launch, also where several have one
    name, and no time lies outside of the ranges that were chosen."""
    recorded = open_program(RECORDINGS / "h100-program/train")
    (account,) = recorded.accounts
    profiled = [kernel for kernel in account.kernels if kernel.verdict]
    assert len(profiled) == len(recorded.record.kernels) == 33
    assert max(Counter(kernel.kernel.symbol for kernel in profiled).values()) == 3
    assert account.covered_pct > 95.0
    assert {path.split("/")[0] for path in account.by_range} == {"step"}
    assert sum(account.pct(part.ns) for part in account.parts) == pytest.approx(100.0)


def test_what_lies_between_is_what_the_account_of_streams_says(torch):
    (account,) = torch.accounts
    (streams,) = accounts(read(TORCH))
    between = {part.name: part.ns for part in account.parts if part.kind == BETWEEN}
    expected = {}
    for gap in streams.gaps:
        for cause, ns in gap.parts.items():
            expected[cause] = expected.get(cause, 0) + ns
    assert account.span.ns == streams.span_ns
    assert sum(between.values()) == pytest.approx(streams.idle_ns)
    assert between["dependency"] == pytest.approx(expected["dependency"], rel=0.01)


def test_without_marks_of_the_profiler_the_batches_of_the_torch_loop_are_found(tmp_path):
    recording = read(TORCH)
    rows = recording.rows[~recording.rows["name"].str.contains("Profiler")].reset_index(drop=True)
    run = program_of(tmp_path / "run", Recording(rows, facts=recording.facts), ProgramRecord())
    (account,) = open_program(run).accounts
    # Of 12 batches the first is slower and the last has nothing behind it; before them lies a
    # warm-up that takes 20 times as long.
    assert account.span.rule == "11 repetitions of 5 launches; 1 slower before them left out"
    assert account.by_kind[BETWEEN] / account.span.ns == pytest.approx(0.637, abs=0.001)


def test_a_span_may_be_chosen_anew_when_a_recording_is_opened():
    (all_of_it,) = open_program(TORCH, SpanChoice(whole=True)).accounts
    assert all_of_it.span.ns > 15 * open_program(TORCH).accounts[0].span.ns
    assert set(all_of_it.by_kind) <= {BETWEEN, UNPROFILED, MEMORY}


def test_kernels_are_told_apart_by_grid_and_share_time_evenly(tmp_path):
    (account,) = open_program(program_of(tmp_path / "run", two_kernels())).accounts
    assert [(one.kernel.grid, one.kernel.block, one.kernel.shared_B, one.launches) for one in account.kernels] == [
        ("4,1,1", "64,1,1", 1024, 2),
        ("8,1,1", "64,1,1", 0, 1),
    ]
    assert [one.ns / 1e3 for one in account.kernels] == [50.0, 30.0]
    assert account.overlapped_ns == 20_000
    assert account.by_kind == {BETWEEN: 30_000.0, UNPROFILED: 80_000.0}
    assert [row.name for row in range_rows(account)] == ["step", "step/forward"]
    assert sum(row.ns for row in range_rows(account)) == account.span.ns


def test_an_account_that_does_not_sum_is_refused():
    span = MeasuredSpan(((0, 100),), "all")
    kernel = KernelTime(ProgramKernel("k", "k"), 1, 50.0, 50.0)
    with pytest.raises(ValueError, match="sum to 90 ns of 100"):
        ProgramAccount(1, 0, "", span, (kernel,), (PartTime(BETWEEN, "launch_gap", 40.0),), 0.0)


def selection(recording, **options):
    work = program_work(recording)
    spans = spans_of(recording, work, SpanChoice(whole=True))
    return work, select(work, spans, options.get("pct", 95.0), Filters(), frozenset(options.get("without", ())))


def test_kernels_are_selected_by_time_until_enough_is_covered():
    work, both = selection(two_kernels())
    assert [work.kernels[place].grid for place in both.kernels] == ["4,1,1", "8,1,1"]
    assert (both.invocation, both.covered_pct) == (1, 100.0)
    _, one = selection(two_kernels(), pct=60)
    assert (len(one.kernels), one.covered_pct) == (1, 62.5)
    _, none = selection(two_kernels(), without=["square"])
    assert none.kernels == ()


def test_a_graph_as_a_whole_is_time_that_cannot_be_profiled():
    script = Script()
    correlation = script.call("cudaGraphLaunch_v10000", 0, 2)
    script.row("graph", "", 5, 95, stream=1, correlation=correlation, graph=3)
    script.kernel(96, 100, 105, flags=BLOCK, source=4, target=ONE)
    work, found = selection(script.recording())
    assert [work.kernels[place].name for place in found.kernels] == ["square"]
    assert found.covered_pct == pytest.approx(100 * 5 / 95)


def test_kernels_of_one_name_are_selected_together_if_they_are_launched_as_often():
    work, found = selection(two_kernels(), pct=40)
    assert [work.kernels[place].grid for place in found.kernels] == ["4,1,1"]  # launched twice, the other once
    early = Recording(two_kernels().rows.query("start_ns < 90000").reset_index(drop=True))
    work, found = selection(early, pct=40)
    assert (len(found.kernels), found.covered_pct) == (2, 100.0)


def test_kernels_that_wait_for_other_gpus_are_never_selected(tmp_path):
    recording = two_kernels()
    last = recording.rows.index[recording.rows["kind"] == "kernel"][-1]
    recording.rows.loc[last, "name"] = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    work, found = selection(recording)
    assert [work.kernels[place].function for place in found.kernels] == ["square", "square"]
    (account,) = open_program(program_of(tmp_path / "run", recording)).accounts
    assert account.kernels[-1].lacking == "not profiled: it waits for other processes"
    (note,) = found.notes
    assert note.startswith("left out: ncclDevKernel_AllReduce_Sum_bf16_RING_LL, 25.0 % of the time")
    spans = spans_of(recording, work, SpanChoice(whole=True))
    assert select(work, spans, 95.0, Filters(without="^sq|^nccl")).kernels == ()
    assert len(select(work, spans, 95.0, Filters(without="")).kernels) == 3


def test_a_name_that_was_cut_matches_what_begins_like_it(tmp_path):
    recording = read(TORCH)
    name = "k" * 4096
    recording.rows.loc[recording.rows["kind"] == "kernel", "name"] = name
    (kernel,) = program_work(recording).kernels
    assert kernel.is_cut
    (launch,) = (ProfiledLaunch(LaunchIdentity(mangled=text), text) for text in (f"{name}tail",))
    assert own_finder([launch], frozenset())(kernel, 0, 1.0).profiled == launch
    other = ProfiledLaunch(LaunchIdentity(mangled="k" * 4095), "other")
    assert own_finder([other], frozenset())(kernel, 0, 1.0).profiled is None


def test_the_invocation_is_one_that_all_have_and_that_looks_like_the_others():
    script = Script()
    for number, length in enumerate((90, 20, 21, 20, 20)):
        script.kernel(number * 100, number * 100 + 5, number * 100 + 5 + length, flags=BLOCK, source=4, target=ONE)
    for number in range(3):
        start = 600 + number * 10
        script.kernel(start, start + 1, start + 9, flags=BLOCK, source=9, target=ONE)
    _, found = selection(script.recording())
    assert found.invocation == 2


def test_a_recorded_program_is_read_back_and_a_damaged_one_is_named(tmp_path):
    kernels = (ProgramKernel("f<1>(int)", "_Z1fILi1EEvi", "4,1,1", "64,1,1", 12),)
    record = ProgramRecord(SpanChoice("step", 2), kernels, 7, 96.5, 1.5, 3.25, "why", ("a note",))
    program_record.write(record, tmp_path)
    assert program_record.read(tmp_path) == record
    path = tmp_path / program_record.FILE
    for text, says in (
        ("{", "Expecting"),
        ("[]", "program.json"),
        ('{"schema": 99}', "schema 1 is wanted"),
        ('{"schema": 1, "choice": {"skip_first": -1}}', "fewer than none"),
        ('{"schema": 1, "kernels": [{"name": 3, "symbol": "x"}]}', "name"),
        ("[" * 100_000, "program.json"),
    ):
        path.write_text(text)
        with pytest.raises(ReportError, match=says):
            program_record.read(tmp_path)
    path.unlink()
    assert program_record.read(tmp_path) == ProgramRecord()


def test_a_damaged_report_leaves_the_recording_and_is_noted(tmp_path):
    folder = program_of(tmp_path / "run", two_kernels())
    assert is_program(folder)
    assert not is_program(tmp_path)
    (folder / "report.ncu-repz").write_bytes((CHUNK / "report.ncu-repz").read_bytes()[:400])
    shown = open_program(folder)
    assert any("a report cannot be read" in note for note in shown.notes)
    assert UNPROFILED in shown.accounts[0].by_kind
    (folder / "activity.parquet").write_bytes(b"no parquet")
    with pytest.raises(ReportError, match="not readable"):
        open_program(folder)
    with pytest.raises(UsageError, match="no such file or directory"):
        open_program(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no recording of streams"):
        open_program(CHUNK)


def test_what_one_launch_hardly_stands_for_is_said(tmp_path):
    selected = tuple(program_work(two_kernels()).kernels)
    record = ProgramRecord(choice=SpanChoice(whole=True), kernels=selected, invocation=1)
    shown = open_program(program_of(tmp_path / "run", two_kernels(), record))
    assert any("2 kernels that were selected did not come in the profiled run" in note for note in shown.notes)
    levels = open_program(
        RECORDINGS / "h100-lanes/streams-levels", others=[RECORDINGS / "h100/warp_specialized/slots2"]
    )
    assert any("took 7.11 x the median in the program" in note for note in levels.notes)
    assert not doubts(open_program(PIPELINE, others=[CHUNK]).accounts)


def test_several_processes_are_noted(tmp_path):
    import pandas as pd

    first = two_kernels().rows
    both = pd.concat([first, first.assign(process=2)], ignore_index=True).sort_values("start_ns", ignore_index=True)
    shown = open_program(program_of(tmp_path / "run", Recording(both)))
    assert len(shown.accounts) == 2
    assert any("several processes" in note for note in shown.notes)


def test_json_says_what_the_tables_say(torch):
    told = json.loads(json.dumps(torch.to_json()))
    (device,) = told["devices"]
    assert sum(part["pct"] for part in device["parts"]) == pytest.approx(100)
    assert set(device["kinds"]) <= set(KINDS)
    assert device["kernels"][0]["launch"].endswith("rank0#0")
    assert device["kernels"][1]["not_profiled"]
    last = with_rest(kernel_rows(torch.accounts[0]), 2)[-1]
    assert (last.name, last.launches) == ("3 more", 25)
    assert with_rest([], 3) == []
    assert sum(row.pct for row in kernel_rows(torch.accounts[0])) < 100
