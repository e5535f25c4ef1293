"""The store of reports and the rows of the overview."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ncubble.analysis.ablation.result import MeasuredPart
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import recoverable_ns
from ncubble.dashboard.data.rows import labels, launch_row, short_gpu, telling_name
from ncubble.dashboard.data.store import ReportStore, default_paths
from ncubble.dashboard.pages.addresses import CompareAddress
from ncubble.dashboard.pages.compare.layout import suggestions
from ncubble.errors import ReportError
from ncubble.recordings import FULL, H100, LANES, LEVELS, RANKS, ROOT
from tests.helpers import dashboard_frames as frames
from tests.helpers.ablations import ABLATED, ablation


def test_every_launch_has_a_row_and_every_damaged_file_a_reason(tmp_path: Path) -> None:
    store = frames.store(tmp_path)
    assert len(store.rows()) == 8
    assert [
        (Path(f.where).name, "ends inside block 3" in f.error, f.remedy == "record it again") for f in store.failures()
    ] == [("damaged.ncu-rep", True, True)]
    progress = store.progress()
    assert (progress.done, progress.total, progress.finished) == (4, 4, True)


def test_rows_come_most_recoverable_idle_time_first(tmp_path: Path) -> None:
    idle = [row["recoverable_ns"] for row in frames.store(tmp_path).rows()]
    known = [value for value in idle if value is not None]
    assert known == sorted(known, reverse=True)
    assert idle[len(known) :] == [None] * (len(idle) - len(known))


def test_a_launch_whose_analysis_fails_is_listed_and_the_others_are_shown(tmp_path: Path) -> None:
    report = frames.gemm()

    def judge(report: Any, launch: int) -> LaunchVerdict:
        if launch == 0:
            raise ZeroDivisionError("division by zero")
        verdict: LaunchVerdict = report.verdicts[launch]
        return verdict

    store = ReportStore([tmp_path / "a.ncu-rep"], lambda paths: ([report], []), judge)
    assert store.start().wait(30)
    assert [row["launch"] for row in store.rows()] == [1]
    assert store.failures()[0].where.endswith("launch 0")
    assert "division by zero" in store.failures()[0].error


def test_a_number_beyond_64_bits_costs_its_launch_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def row_of(*args: Any) -> dict[str, Any]:
        row = launch_row(*args)
        return row | {"parameters": {"seed": 2**70}} if row["launch"] == 0 else row

    monkeypatch.setattr("ncubble.dashboard.data.store.launch_row", row_of)
    store = frames.store(tmp_path)
    assert store.rows() and all(row["launch"] != 0 for row in store.rows())
    assert any(failure.where.endswith("launch 0") for failure in store.failures())


def test_an_opener_that_dies_ends_loading_with_a_message(tmp_path: Path) -> None:
    def opener(paths: Any) -> Any:
        raise ReportError("the worker died", "try again")

    store = ReportStore([tmp_path / "a.ncu-rep"], opener)
    assert store.start().wait(30)
    assert store.failures()[0].error == "the worker died"
    assert store.progress().finished


def test_equal_content_is_shown_once_and_said(tmp_path: Path) -> None:
    store = frames.store(tmp_path, [frames.gemm(), frames.gemm()])
    assert len(store.rows()) == 2
    assert len(store.duplicates()) == 1


def test_rows_can_be_read_while_loading(tmp_path: Path) -> None:
    gate = threading.Event()

    def opener(paths: Any) -> Any:
        gate.wait(30)
        return [frames.gemm()], []

    store = ReportStore([tmp_path / "a.ncu-rep"], opener, frames.judge)
    store.start()
    assert store.rows() == []
    assert not store.progress().finished
    gate.set()
    assert store.wait(30)
    assert len(store.rows()) == 2


def test_a_launch_is_found_by_the_address_of_its_row(tmp_path: Path) -> None:
    store = frames.store(tmp_path)
    key, launch = store.rows()[0]["id"].split("/")
    entry = store.find(key, int(launch))
    assert entry is not None and entry.row == store.rows()[0]
    assert store.find("0" * 16, 0) is None
    assert store.find(key, 99) is None


def test_a_row_holds_null_for_what_was_not_collected() -> None:
    report = frames.bare()
    row = launch_row(report, 1, report.verdicts[1])
    for name in ("tensor", "dram", "duration_ns", "recoverable_ns", "bubble", "bubble_pct", "device", "gpu"):
        assert row[name] is None, name
    assert row["account"] == []


def test_a_row_shows_the_parameters_of_the_run_only_on_its_own_kernel() -> None:
    report = frames.gemm()
    assert launch_row(report, 0, report.verdicts[0])["label"] == "stages=3"
    other = frames.verdict("memset_kernel", 1000.0, "tiny_launch")
    assert launch_row(report, 0, other)["label"] == "grid 32,32,1 × block 256,1,1"


def test_a_kernel_without_parameters_shows_its_shape() -> None:
    report = frames.gemm()
    report.run.manifest.kernel["parameters"] = {}
    row = launch_row(report, 0, report.verdicts[0])
    assert (row["label"], row["shape"]) == ("m=4096", "m=4096")


def test_rows_that_differ_in_shape_alone_name_the_dimensions_that_differ() -> None:
    report = frames.gemm()
    rows = [
        launch_row(report, 0, report.verdicts[0]) | {"label": label, "shape": shape}
        for label, shape in (("s=3", "m=64 n=8"), ("s=3", "m=64 n=16"), ("s=4", "m=8 n=8"), ("grid 1 × block 2",) * 2)
    ]
    assert labels(rows) == ["s=3 n=8", "s=3 n=16", "s=4", "grid 1 × block 2"]
    assert labels(rows[:1] * 2) == ["s=3", "s=3"]


def test_the_table_and_the_links_of_a_launch_tell_recorded_shapes_apart() -> None:
    store = ReportStore([ROOT / "attention_fwd" / name for name in ("default", "dim64")]).start()
    assert store.wait(120)
    shown = {row["label"]: row["id"] for row in store.rows()}
    assert set(shown) == {f"path=tma causal=0 stages=4 dim={size}" for size in (64, 128)}
    partners, _ = suggestions(store, "", CompareAddress((shown["path=tma causal=0 stages=4 dim=128"],)))
    assert "stages=4 dim=64" in frames.sent(partners)


def test_a_row_names_the_busy_unit_and_what_its_cause_costs() -> None:
    report = frames.bare()
    row = launch_row(report, 0, report.verdicts[0])
    assert (row["unit"], row["busy"], row["cause_pct"]) == ("DRAM", 91.0, None)
    row = launch_row(report, 0, frames.verdict("k", 1e5, "no_tensor_work", unit="fma"))
    assert (row["unit"], row["cause"], row["cause_pct"]) == ("FMA", "no tensor work", None)
    row = launch_row(report, 0, frames.verdict("k", 1e5, "copy_cost"))
    assert (row["change"], row["cause_pct"], row["at"]) == ("copies", 21.0, "gemm.cu:77")


def test_a_row_rounds_like_the_verdict() -> None:
    report = frames.gemm()
    row = launch_row(report, 0, frames.verdict("k", 1e5, "copy_cost", tensor_elapsed_pct=71.7463))
    assert f"{row['tensor']:.1f}" == "71.7"


def test_nothing_is_recoverable_from_a_saturated_or_memory_bound_launch() -> None:
    full = {"tensor_busy": 95.0, "issue": 5.0}
    assert recoverable_ns(frames.verdict("k", 1000.0, "none", account=full)) == 0.0
    assert recoverable_ns(frames.verdict("k", 1000.0, "none")) == 569.0
    assert recoverable_ns(frames.verdict("k", 1000.0, "bytes")) == 0.0
    assert recoverable_ns(frames.verdict("k", 1000.0, "copy_cost")) == pytest.approx(569.0)
    assert recoverable_ns(frames.verdict("k", None, "copy_cost")) is None


@pytest.mark.parametrize(
    ("device", "short"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        (None, None),
        ("", None),
    ],
)
def test_gpus_have_short_names(device: str | None, short: str | None) -> None:
    assert short_gpu(device) == short


def test_a_name_that_says_nothing_gives_way_to_the_signature() -> None:
    signature = "void cutlass::Kernel2<cutlass::gemm::Gemm<float, (int)4>>(T1::Params)"
    assert telling_name("Kernel2", signature) == "cutlass::Kernel2<cutlass::gemm::Gemm<float, 4>>"
    assert telling_name("softmax", "void softmax(float*)") == "softmax"
    assert telling_name("Kernel", "") == "Kernel"


def test_paths_default_to_runs_and_then_to_the_recordings(tmp_path: Path) -> None:
    assert default_paths([], tmp_path) == [ROOT, H100, FULL, LANES, LEVELS, RANKS]
    (tmp_path / "runs").mkdir()
    assert default_paths([], tmp_path) == [tmp_path / "runs"]
    assert default_paths([Path("x")], tmp_path) == [Path("x")]


def test_a_path_that_does_not_exist_is_a_failure_with_its_name(tmp_path: Path) -> None:
    missing = tmp_path / "gone.ncu-rep"
    store = ReportStore([missing])
    assert store.start().wait(60)
    assert str(missing) in store.failures()[0].where + store.failures()[0].error


def test_a_failure_of_the_opener_names_its_path(tmp_path: Path) -> None:
    bad = SimpleNamespace(path=tmp_path / "x.ncu-rep", error=ReportError("cut short", ""))
    store = ReportStore([tmp_path / "x.ncu-rep"], lambda paths: ([], [bad]))
    assert store.start().wait(30)
    assert store.failures()[0].where == str(bad.path)


def test_a_row_is_measured_where_the_launch_was_ablated(tmp_path: Path) -> None:
    shutil.copytree(ABLATED, tmp_path / "run")
    store = ReportStore([tmp_path]).start()
    assert store.wait(60) and not store.failures()
    (row,) = store.rows()
    assert (row["cause"], row["cause_key"], row["bubble"]) == (
        "data wait (measured)",
        "data_wait",
        "data wait (measured)",
    )
    assert row["cause_pct"] == row["bubble_pct"] == pytest.approx(30.3, abs=0.1)
    assert dict(row["account"])["data_wait"] == pytest.approx(28.0, abs=0.1)
    assert dict(row["measured"])["remainder"] == pytest.approx(0.9, abs=0.1)


def test_a_damaged_ablation_is_named_and_the_row_is_the_estimate(tmp_path: Path) -> None:
    shutil.copytree(ABLATED, tmp_path / "run")
    (tmp_path / "run" / "ablation.json").write_text("{")
    store = ReportStore([tmp_path]).start()
    assert store.wait(60)
    (row,), (failure,) = store.rows(), store.failures()
    assert (row["cause"], row["measured"]) == ("data wait", None)
    assert "ablation.json: not an ablation" in failure.error and failure.where == str(tmp_path / "run")


def test_parts_that_were_measured_together_have_the_colour_of_the_first() -> None:
    report, measured = frames.gemm(), ablation([MeasuredPart("copy_cost+data_wait", None, 38.5, 0.1, None)])
    row = launch_row(report, 0, report.verdicts[0], measured)
    assert (row["cause"], row["cause_key"], row["bubble"]) == (
        "copy cost",
        "copy_cost",
        "copy cost and data wait (measured)",
    )
    assert (row["bubble_key"], row["measured"]) == ("copy_cost", None)
