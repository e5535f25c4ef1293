"""``ncubble ablate``: what it prints of a recorded ablation, what it refuses, and a whole
measurement in which recorder, profiler and GPU are played."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.ablation import experiment
from ncubble.analysis.ablation.result import FILE, ROUTE, SHORTER, Ablation
from ncubble.analysis.account.shares import NONE
from ncubble.chips import Version
from ncubble.cli.main import main
from ncubble.errors import MeasurementError, NcubbleError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.profiling import session as session_module
from ncubble.profiling.capsules import replays
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replays import NOT_TRIED, MeasuredRounds, ReplayOutcome, ReplayVariant
from ncubble.profiling.driver import Device, DriverError
from ncubble.profiling.failures import CounterPermissionError, MachineError, NcuMissingError, NcuUnusableError
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders import capsules, ncu
from ncubble.profiling.recorders.capsules import Captured
from ncubble.profiling.runs import Run, read_manifest
from ncubble.profiling.session import ProgramEnd, Session

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ROOT / "recordings" / "validation" / "ablation" / "agreement" / "gemm_tma-stages2"
CYCLES = 400_000.0
GONE = {"wait": 30.0, "copy": 33.0, "copy_sync": 32.0, "epilogue": 3.0, "all": 36.0}
FAULT = "CUDA_ERROR_LAUNCH_FAILED"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``ncubble ablate``."""
    with pytest.raises(SystemExit) as ended:
        main(["ablate", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_a_recorded_ablation_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    status, out, err = run(capsys, str(RECORDED))
    assert status == 0 and "NVIDIA H200 · 404,552 cycles ± 0.14 % · 5 rounds · machine code" in out
    rows = {line[:28].strip(): line[28:].split() for line in out.splitlines()}
    assert rows["data wait"] == ["28.0", "30.3", "0.2", "30.6"]
    assert rows["neither work nor removed"] == ["3.5"]
    assert "gemm_tma.cu:93" in out and "wait and sync -0.9, copy and sync +0.2" in out
    assert f"run: {RECORDED} (profile 4.7 s, ablate 3.2 s)" in err


def test_without_a_gpu_the_program_does_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none() -> None:
        raise DriverError("no NVIDIA driver")

    monkeypatch.setattr(session_module, "describe", none)
    monkeypatch.chdir(tmp_path)
    status, _, err = run(capsys, "--", "touch", "ran")
    assert status == 3 and err.startswith("ncubble: no usable NVIDIA GPU: no NVIDIA driver")
    assert list(tmp_path.iterdir()) == []


def test_a_recorded_ablation_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, str(RECORDED), "--json")
    assert status == 0
    (found,) = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["runs"]
    assert found["run"] == str(RECORDED) and found["cycles"] == 404551.6
    assert {part["part"]: part["se"] for part in found["parts"]}["rest"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a catalog kernel, a run, or a program"),
        (("gemm_tma", "--", "true"), "name a catalog kernel, a run, or a program"),
        ((str(ROOT / "recordings" / "h200" / "gemm_tma" / "stages1"),), "no run in it was ablated"),
        (("no_such_kernel",), "no_such_kernel"),
        (("--kernel", "gemm(", "--", "true"), "not a regular expression"),
        (("--", "/no/such/program"), "no such program"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "") and message in err


def test_a_folder_that_exists_is_not_replaced(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("text")
    status, _, err = run(capsys, "gemm_tma", "--out", str(tmp_path))
    assert status == 2 and str(tmp_path) in err and (tmp_path / "mine").read_text() == "text"


@dataclass
class Played:
    """A machine with a GPU. ``fates``: statuses of variants in each of the trials, the last of
    which counts for all that follow; what is not named is ok. ``differ``: variants that change
    results. ``lost``: launches that ncu does not measure. ``broken``: the number of a launch whose
    code lacks its function. ``codes``: machine code of the variants in each trial, and in what was
    counted last."""

    cubin: bytes
    fates: list[dict[str, str]] = field(default_factory=lambda: [{}])
    differ: tuple[str, ...] = ()
    launches: int = 1
    refused: list[tuple[str, str]] = field(default_factory=list)
    status: int = 0
    lost: int = 0
    broken: int = -1
    modules: int = 1
    no_counters: NcubbleError | None = None
    trials: list[list[ReplayVariant]] = field(default_factory=list)
    counted: list[list[str]] = field(default_factory=list)
    codes: list[dict[str, bytes]] = field(default_factory=list)
    filters: list[Filters] = field(default_factory=list)

    def capture(self, session: Session, filters: Filters, folder: Path) -> Captured:
        self.filters.append(filters)
        assert session.subject.function
        recorded = []
        for number in range(self.launches):
            place = folder / f"capsule-1-{number}"
            place.mkdir()
            function = "another" if number == self.broken else "gemm_tma"
            (place / "kernel.cubin").write_bytes(self.cubin)
            facts = {"function": function, "kernel": "gemm_tma", "device": {"name": "NVIDIA H200"}, "regions": []}
            recorded.append(Capsule(place, {**facts, "modules_of_that_name": self.modules}))
        return Captured(recorded, self.refused, ProgramEnd(self.status, 1.0))

    def profile(self, session: Session, settings: Any, program: Sequence[str]) -> None:
        if self.no_counters:
            raise self.no_counters
        assert "ncubble.profiling.capsules.replay" in program
        shutil.copy(RECORDED / "report.ncu-repz", session.folder)
        session.record(kernel=read_manifest(RECORDED / "run.json").kernel)

    def probe(
        self, capsule: Capsule, variants: Sequence[ReplayVariant], folder: Path, heard: Callable[[str], None]
    ) -> dict[str, ReplayOutcome]:
        fates = self.fates[min(len(self.trials), len(self.fates) - 1)]
        self.trials.append(list(variants))
        self.codes.append({variant.name: variant.cubin.read_bytes() for variant in variants})
        outcomes = {}
        for variant in variants:
            heard(variant.name)
            assert variant.cubin.stat().st_size == len(self.cubin)
            same = variant.name not in self.differ if variant.harmless else None
            outcomes[variant.name] = ReplayOutcome(fates.get(variant.name, "ok"), same)
        return outcomes

    def count_rounds(self, capsule: Capsule, plan: Path, heard: Any) -> MeasuredRounds:
        launches = json.loads(plan.read_text())["launches"]
        self.counted.append([entry["name"] for entry in launches])
        self.codes.append({entry["name"]: Path(entry["cubin"]).read_bytes() for entry in launches})
        fates = {} if self.trials else self.fates[0]
        counted = MeasuredRounds()
        for number, entry in enumerate(launches[: len(launches) - self.lost]):
            name, same = entry["name"], entry["name"] not in self.differ if entry["compare"] else None
            counted.outcomes.setdefault(name, ReplayOutcome(fates.get(name, "ok"), same))
            if name in fates:
                break
            counted.values.append(CYCLES * (1 + 0.001 * (number % 2)) * (1 - GONE.get(name, 0.0) / 100))
            counted.dram_B.append(3e6 if name == "wait" else 2e6)
        if not counted.values:
            raise MeasurementError("ncu measured no cycles", "")
        return counted

    def time_rounds(self, capsule: Capsule, plan: Path, heard: Callable[[int], None]) -> MeasuredRounds:
        assert json.loads(plan.read_text())["timed"] is True
        timed = self.count_rounds(capsule, plan, None)
        timed.values = [cycles / 2 for cycles in timed.values]
        timed.clock_mhz = [2000.0] * len(timed.values)
        timed.overhead_ns = 1500.0
        return timed


@pytest.fixture(scope="module")
def cubin() -> bytes:
    try:
        return build(make_case(find_spec("gemm_tma"), {"stages": 2}), "sm_90a").cubin
    except MeasurementError as error:
        pytest.skip(str(error))


@pytest.fixture
def played(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> Played:
    player = Played(cubin)
    device = Device("NVIDIA H200", Version(9, 0), "580.82", Version(13, 0))
    monkeypatch.setattr(session_module, "describe", lambda: device)
    for name in ("COUNTED_ROUNDS", "TIMED_ROUNDS"):
        monkeypatch.setattr(experiment, name, 4)
    monkeypatch.setattr(capsules, "record", player.capture)
    monkeypatch.setattr(ncu, "record", player.profile)
    for name in ("probe", "count_rounds", "time_rounds"):
        monkeypatch.setattr(replays, name, getattr(player, name))
    return player


@pytest.fixture
def immovable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that keeps its NOPs, so that no set is tried with them a second time."""
    monkeypatch.setattr(experiment.Experiment, "_movable", lambda self: False)


ARGUMENTS = ("gemm_tma", "-p", "stages=2", "--json", "--out")


def measured(capsys: pytest.CaptureFixture[str], out: Path, *more: str) -> tuple[dict[str, Any], str]:
    """The ablation that was printed, and what stderr says."""
    status, text, err = run(capsys, *ARGUMENTS, str(out), *more)
    assert status == 0, err
    (found,) = json.loads(text)["runs"]
    return found, err


def statuses(found: dict[str, Any]) -> dict[str, str]:
    return {variant["name"]: variant["status"] for variant in found["variants"]}


def test_a_launch_is_recorded_taken_apart_and_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played, cubin: bytes
) -> None:
    found, _ = measured(capsys, tmp_path / "out")
    assert played.filters[0].count == 1
    assert found["cycles"] == pytest.approx(CYCLES, rel=1e-3) and found["rounds"] == 4 and found["faithful"] is True
    (launches,) = played.counted
    names = launches[: len(launches) // 4]
    words = ["wait", "copy", "sync", "wait_sync", "copy_sync", "epilogue", "all"]
    assert launches == names * 4, "in turns"
    moved = {variant["name"]: variant["moved"] for variant in found["variants"]}
    assert moved["wait"] == 1.5 and moved["sync"] == 1.0
    assert names[:8] == [NONE, *words] and all(name.startswith("slack ") for name in names[8:]) and names[8:]
    assert played.trials == [], "nothing failed, nothing is tried one by one"
    parts = {part["part"]: part for part in found["parts"]}
    assert parts["data_wait"]["alone"] == pytest.approx(30.0, abs=0.2)
    assert parts["epilogue"]["measured"] == pytest.approx((3.0 + 36.0 - 32.0) / 2, abs=0.3)
    kept = Run.load(tmp_path / "out")
    assert kept.report.is_file() and (tmp_path / "out" / "kernel.cubin").read_bytes() == cubin
    assert any("replay of the recorded launch" in note for note in kept.manifest.notes)
    assert str(tmp_path) not in (tmp_path / "out" / "run.json").read_text()
    loaded = Ablation.load(tmp_path / "out")
    assert loaded is not None and loaded.cycles == found["cycles"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"], "capsules are gone"


def test_other_kernels_of_the_same_name_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.modules = 3
    found, _ = measured(capsys, tmp_path / "out")
    assert found["notes"] == ["the program loaded 3 kernels of this name: the newest was measured"]


def test_a_delay_that_changes_results_is_not_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.differ = ("slack tensor",)
    found, _ = measured(capsys, tmp_path / "out")
    slack = {variant["name"]: variant for variant in found["slack"]}
    assert slack["slack tensor"]["status"] == "changes results" and slack["slack tensor"]["cycles"] == []
    assert slack["slack uniform"]["status"] == "ok" and len(slack["slack uniform"]["cycles"]) == 4


def test_of_a_kernel_that_does_not_repeat_itself_nothing_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.differ = (NONE, "slack tensor")
    found, _ = measured(capsys, tmp_path / "out")
    assert found["faithful"] is False and {variant["status"] for variant in found["slack"]} == {"ok"}


def test_a_kernel_that_adds_in_any_order_is_not_said_to_differ(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.differ = (NONE,)
    monkeypatch.setattr(experiment, "adds_in_any_order", lambda sass: True)
    found, _ = measured(capsys, tmp_path / "out")
    assert found["faithful"] is None and any("in no fixed order" in note for note in found["notes"])


@pytest.mark.usefixtures("immovable")
def test_waits_that_a_kernel_needs_go_with_those_for_free_slots(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.fates = [{"wait": FAULT, "wait_sync": FAULT}, {}]
    found, _ = measured(capsys, tmp_path / "out")
    assert set(statuses(found).values()) == {"ok"}
    assert [variant.name for variant in played.trials[1]] == ["wait", "copy", "wait_sync", "copy_sync", "all"]
    assert any(note.startswith("without wait: waits for free slots") for note in found["notes"])


@pytest.mark.usefixtures("immovable")
def test_copies_that_a_kernel_needs_bring_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    fails = dict.fromkeys(("wait", "copy"), FAULT)
    played.fates = [fails, {}, {"wait": FAULT}]
    found, _ = measured(capsys, tmp_path / "out")
    assert statuses(found) == dict.fromkeys(statuses(found), "ok") | {"wait": FAULT, "wait_sync": NOT_TRIED}
    assert [variant.name for variant in played.trials[1]] == ["copy", "copy_sync", "all"]
    assert any(note.startswith("without copy: copies transfer nothing") for note in found["notes"])
    assert {part["part"] for part in found["parts"]} >= {"data_wait+copy_cost", "sync_wait", "rest"}


@pytest.mark.usefixtures("immovable")
def test_copies_that_ran_stay_as_they_were_where_only_waits_run_another_way(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    copies = ("copy", "copy_sync", "all")
    played.fates = [dict.fromkeys(("wait", "copy"), FAULT), {}, dict.fromkeys(copies, FAULT)]
    found, _ = measured(capsys, tmp_path / "out")
    assert set(statuses(found).values()) == {"ok"}
    *_, bare, free_running, counted = played.codes
    assert {name: counted[name] for name in copies} == {name: bare[name] for name in copies}
    assert counted["wait"] == free_running["wait"] and counted["copy"] != free_running["copy"]
    notes = [note for note in found["notes"] if note.startswith("without")]
    assert [note.partition(":")[0] for note in notes] == ["without copy", "without wait"]


def test_a_variant_that_leaves_mmas_out_tells_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GONE, "sync", 99.0)
    found, _ = measured(capsys, tmp_path / "out")
    assert statuses(found)["sync"] == "computes less than the kernel"
    assert all(part["measured"] < 90 for part in found["parts"])


def test_what_fails_in_shorter_code_is_measured_with_nops(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.fates = [{"sync": FAULT}, {}]
    found, _ = measured(capsys, tmp_path / "out")
    assert set(statuses(found).values()) == {"ok"}
    first, second = ({variant.name for variant in trial} for trial in played.trials)
    assert "wait" not in second and "sync" in second, "what ran in shorter code stays as it is"
    (note,) = (note for note in found["notes"] if "issue slots" in note)
    assert "without sync" in note and found["route"] == SHORTER
    assert "epilogue" in first and played.codes[0]["sync"] != played.codes[2]["sync"]


def test_what_fails_with_nops_too_is_not_said_to_need_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    holding = dict.fromkeys(("wait_sync", "copy_sync", "all"), NOT_TRIED)
    played.fates = [{"sync": FAULT, **holding}]
    found, _ = measured(capsys, tmp_path / "out")
    assert statuses(found)["sync"] == FAULT and statuses(found)["wait"] == "ok"
    assert found["route"] == SHORTER and not any("issue slots" in note for note in found["notes"])


@pytest.mark.usefixtures("immovable")
def test_code_that_cannot_be_moved_keeps_its_nops(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    found, _ = measured(capsys, tmp_path / "out")
    assert found["route"] == ROUTE and set(statuses(found).values()) == {"ok"}


def test_what_is_taken_out_leaves_no_slot(capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played) -> None:
    found, _ = measured(capsys, tmp_path / "out")
    assert found["route"] == SHORTER and not any("slots" in note for note in found["notes"])


@pytest.mark.usefixtures("immovable")
def test_what_fails_is_found_by_trying_one_by_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.fates = [{"sync": FAULT}]
    found, _ = measured(capsys, tmp_path / "out")
    told = statuses(found)
    assert told["sync"] == FAULT and told["wait_sync"] == told["copy_sync"] == told["all"] == NOT_TRIED
    assert told["wait"] == told["copy"] == told["epilogue"] == "ok"
    (tried,) = played.trials
    assert tried[0].name == "epilogue" and all(one.name.startswith("slack ") for one in tried[1:]), (
        "the others are known"
    )
    assert tried[-1].harmless and not tried[0].harmless
    assert played.counted[1][:4] == [NONE, "wait", "copy", "epilogue"], "what runs is counted"


def test_a_variant_that_loses_time_tells_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GONE, "wait", -430.0)
    monkeypatch.setitem(GONE, "sync", -15.0)
    found, _ = measured(capsys, tmp_path / "out")
    told = statuses(found)
    assert told["wait"] == "slower than the whole kernel" and told["sync"] == "ok"
    assert not any(part["measured"] < -20 for part in found["parts"])
    assert any("so parts are taken individually" in note for note in found["notes"])


@pytest.mark.usefixtures("immovable")
def test_what_ran_as_it_was_is_not_lost_in_other_trials(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.fates = [{"wait": FAULT}, {"wait": FAULT, "copy": FAULT, "copy_sync": FAULT, "all": FAULT}]
    found, _ = measured(capsys, tmp_path / "out")
    assert len(played.trials) > 1
    assert statuses(found) == dict.fromkeys(statuses(found), "ok") | {"wait": FAULT, "wait_sync": NOT_TRIED}
    assert not any(note.startswith("without") for note in found["notes"])


def test_a_launch_that_cannot_be_replayed_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.fates = [{NONE: FAULT}]
    status, out, err = run(capsys, *ARGUMENTS, str(tmp_path / "out"))
    assert (status, out) == (3, "") and f"gemm_tma: the launch cannot be replayed: {FAULT}" in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


def test_a_launch_that_ncu_never_measures_whole_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.lost = 1
    status, _, err = run(capsys, *ARGUMENTS, str(tmp_path / "out"))
    assert status == 3 and "could not be measured under ncu" in err


def test_several_launches_become_several_runs_and_the_others_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.launches, played.broken, played.status = 3, 1, 7
    played.refused = [("gemm_tma", "it works on host memory")]
    status, out, err = run(capsys, *ARGUMENTS, str(tmp_path / "out"), "--count", "4")
    assert status == 0
    assert [Path(found["run"]).name for found in json.loads(out)["runs"]] == ["launch-0", "launch-2"]
    said = " ".join(err.split())
    assert "note: gemm_tma: it works on host memory" in said
    assert "note: gemm_tma: the machine code has no function another" in said
    assert "note: the program failed with exit status 7" in said
    status, out, _ = run(capsys, str(tmp_path / "out"), "--json")
    assert status == 0 and len(json.loads(out)["runs"]) == 2


WORDS = ["wait", "copy", "sync", "wait_sync", "copy_sync", "epilogue", "all"]


@pytest.mark.parametrize("asked", [True, False])
def test_refused_counters_lead_to_times(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played, asked: bool
) -> None:
    played.no_counters = CounterPermissionError()
    found, _ = measured(capsys, tmp_path / "out", *(["--time"] if asked else []))
    assert found["measure"] == "time" and found["cycles"] is None
    assert found["time_ns"] == pytest.approx(CYCLES / 2, rel=2e-3) and found["rounds"] == 4
    low, high = found["interval_ns"]
    assert low <= found["time_ns"] <= high and found["overhead_ns"] == 1500.0 and found["clock_mhz"] == 2000.0
    parts = {part["part"]: part for part in found["parts"]}
    assert parts["data_wait"]["alone"] == pytest.approx(30.0, abs=0.2) and parts["data_wait"]["interval"]
    assert all(part["estimated"] is None for part in found["parts"])
    wait = next(one for one in found["variants"] if one["name"] == "wait")
    assert wait["cycles"] == [] and len(wait["times_ns"]) == 4 and wait["clock_mhz"] == 2000.0
    (launches,) = played.counted
    names = launches[: len(launches) // 5]
    assert names[:8] == [NONE, *WORDS] and launches == [*names, *names[::-1], *names, *names[::-1], *names]
    refused = [note for note in found["notes"] if "ERR_NVGPUCTRPERM" in note]
    assert bool(refused) is not asked, "the note says why, unless time was wanted"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [FILE, "kernel.cubin", "run.json"]


@pytest.mark.parametrize(
    "lacking",
    [NcuMissingError("ncu was not found", "install it"), NcuUnusableError("/bin/ncu: too old", "install a newer one")],
)
def test_what_was_timed_is_shown_with_its_measure(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    played: Played,
    monkeypatch: pytest.MonkeyPatch,
    lacking: MeasurementError,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    played.no_counters = lacking
    status, out, err = run(capsys, *ARGUMENTS[:-2], "--out", str(tmp_path / "out"))
    assert status == 0, err
    for text in (out, run(capsys, str(tmp_path))[1]):
        assert "measured in time, not in cycles: no counters were read" in text
        assert "part (% of time)" in text and "remainder, work included" in text and "% of cycles" not in text
        assert "200.10 µs (200.00 to 200.20)" in text and "at 2,000 MHz" in text and "estimated" not in text
        assert max(map(len, text.splitlines())) <= 80


def test_another_failure_of_the_profiler_is_not_passed_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.no_counters = MachineError("another tool is reading the GPU's counters", "stop it")
    status, _, err = run(capsys, *ARGUMENTS, str(tmp_path / "out"))
    assert status == 3 and "another tool is reading the GPU's counters" in err
    assert list(tmp_path.iterdir()) == []


def test_a_variant_that_fails_in_turns_is_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.fates = [{"sync": FAULT}, {}]
    found, _ = measured(capsys, tmp_path / "out", "--time")
    assert {one["name"]: one["status"] for one in found["variants"]}["wait"] == "ok"
    assert len(played.counted) == 2


def test_a_timed_launch_is_kept_with_its_program(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    status, out, err = run(capsys, "gemm_tma", "--time", "--json", "--out", str(tmp_path / "out"))
    assert status == 0, err
    assert json.loads(out)["runs"][0]["rounds"] == 4
    kept = Ablation.load(tmp_path / "out")
    assert kept is not None and kept.timed and "python" in kept.argv[0]
