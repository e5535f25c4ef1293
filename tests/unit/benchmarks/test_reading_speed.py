"""Composed reports hold what they were made of; the short form of the benchmark of reading, with
generous bounds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from benchmarks.reports import compose, speed
from ncubble.analysis.report.report import Report
from ncubble.recordings import REPEATS, ROOT

MIXED = [
    ROOT / "tensor_core_gemm" / "stages1",
    ROOT / "softmax_online" / "default",
    ROOT / "tensor_core_gemm" / "stages3",
]
SLIM = REPEATS / "tensor_core_gemm" / "stages1"


def files(runs: list[Path]) -> list[Path]:
    return [run / "report.ncu-repz" for run in runs]


@pytest.fixture(scope="module")
def bench() -> Any:
    """The modules of the benchmark."""
    return SimpleNamespace(compose=compose, speed=speed)


@pytest.fixture(scope="module")
def mixed(bench: Any, tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("composed") / "mixed.ncu-rep"
    path.write_bytes(bench.compose.compose(files(MIXED), 4))
    return Report.open(path)


@pytest.fixture(scope="module")
def timed(bench: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A benchmark on 150 launches of one small recording."""
    found = bench.speed.Bench(tmp_path_factory.mktemp("speed"), repeats=3)
    found.path = found.folder / "150.ncu-rep"
    found.path.write_bytes(bench.compose.compose(files([SLIM]), 150))
    return found


def of_launch(frame: pd.DataFrame, launch: int) -> pd.DataFrame:
    return frame[frame["launch"] == launch].drop(columns="launch").reset_index(drop=True)


@pytest.mark.parametrize("run", [*MIXED, SLIM], ids=lambda run: "/".join(run.parts[-2:]))
def test_blocks_are_written_as_they_were_read(bench: Any, run: Path) -> None:
    data = bench.compose.plain_bytes(run / "report.ncu-repz")
    header, blocks = bench.compose.read_blocks(data)
    written = [bench.compose.write_block(one) for one in blocks]
    assert b"".join([b"NVR\0", len(header).to_bytes(4, "little"), header, *written]) == data


@pytest.mark.parametrize("frame", ["metrics", "timeline", "source"])
def test_a_composed_report_has_the_launches_of_its_sources_in_turn(mixed: Report, frame: str) -> None:
    assert list(mixed.launches["launch"]) == [0, 1, 2, 3]
    for launch, run in enumerate([*MIXED, MIXED[0]]):
        expected = of_launch(getattr(Report.open(run), frame), 0)
        assert len(expected)
        found = of_launch(getattr(mixed, frame), launch)[list(expected.columns)]
        pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_categorical=False)


def of_process_77(compose: Any, data: bytes) -> bytes:
    """A report as if its program had run as process 77: field 1 of the ``Process`` of a block (6)
    and of a launch."""
    header, blocks = compose.read_blocks(data)

    def renamed(message: bytes) -> bytes:
        return compose.serialize(compose.replaced(compose.parse(message), {1: 77}))

    changed = []
    for one in blocks:
        fields = [(number, kind, renamed(value) if number == 6 else value) for number, kind, value in one.header]
        messages = [renamed(message) for message in one.messages] if one.holds(compose.NUM_RESULTS) else one.messages
        changed.append(compose.write_block(compose.Block(fields, messages)))
    return b"".join([b"NVR\0", len(header).to_bytes(4, "little"), header, *changed])


def test_launches_keep_their_code_where_two_reports_number_process_and_module_alike(bench: Any, tmp_path: Path) -> None:
    alike = []
    for run in MIXED:
        alike.append(tmp_path / f"{run.name}.ncu-rep")
        alike[-1].write_bytes(of_process_77(bench.compose, bench.compose.plain_bytes(run / "report.ncu-repz")))
    (tmp_path / "all.ncu-rep").write_bytes(bench.compose.compose(alike, 3))
    source = Report.open(tmp_path / "all.ncu-rep").source
    for launch, run in enumerate(MIXED):
        expected = Report.open(run).source
        assert len(set(expected["sass"])) > 50
        assert list(of_launch(source, launch)["sass"]) == list(expected["sass"])


def test_reports_of_other_metrics_are_not_mixed(bench: Any) -> None:
    with pytest.raises(ValueError, match=r"stages1/report\.ncu-repz: its strings differ"):
        bench.compose.compose([*files(MIXED), SLIM / "report.ncu-repz"], 4)


def test_a_report_cannot_be_composed_of_nothing(bench: Any) -> None:
    with pytest.raises(ValueError, match="no launch in no report"):
        bench.compose.compose([], 4)


def test_all_scalars_of_150_launches_cost_little_more_than_the_bare_loop(timed: Any) -> None:
    """Processor time, the best of three turns: other programs on this machine only ever add to
    it."""
    turns = [[timed.cold(name, path=str(timed.path), launches=150) for name in ("bare", "ncubble")] for _ in range(3)]
    bare, ours = ([turn[i] for turn in turns] for i in (0, 1))
    assert {(one["values"], one["sum"]) for one in ours} == {(one["values"], one["sum"]) for one in bare}
    assert bare[0]["values"] > 150 * 300
    assert min(one["cpu_seconds"] for one in ours) <= 1.5 * min(one["cpu_seconds"] for one in bare)


def test_a_cached_report_of_150_launches_opens_at_once(timed: Any, tmp_path: Path) -> None:
    request = {"path": str(timed.path), "frames": ["metrics", "launches"]}
    _, *cached = [timed.ask("reopen", tmp_path, **request) for _ in range(4)]
    assert min(sum(turn.values()) for turn in cached) < 200


def test_a_contestant_that_reads_other_values_is_refused(bench: Any) -> None:
    floor = {"values": 100, "sum": 5.0}
    bench.speed._agree("streamlit", {"values": 110, "sum": 5.0}, floor)  # texts and empty metrics are in excess
    for wrong in ({"values": 99, "sum": 5.0}, {"values": 100, "sum": 5.1}):
        with pytest.raises(AssertionError, match="read other values"):
            bench.speed._agree("ncubble", wrong, floor)


def test_projects_that_are_not_installed_are_named_with_their_version(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.speed, "PEERS", {"gone": ("no_such_module", "no-such==1.0"), "here": ("json", "json==2")})
    result = bench.speed.Result()
    assert bench.speed.peers(result) == ["here"]
    assert result.notes == ["left out, not installed: pip install no-such==1.0"]


def test_targets_are_missed_on_the_side_that_is_worse(bench: Any) -> None:
    result = bench.speed.Result()
    result.ask("slow", 1.2, 1.1)
    result.ask("fast", 1.1, 1.1)
    result.ask("little gain", 1.6, 1.7, at_least=True)
    result.ask("gain", 1.7, 1.7, at_least=True)
    assert result.missed() == ["slow", "little gain"]
