"""Composed reports hold the launches that they were made of."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.reports import compose
from ncubble.analysis.report.report import Report
from ncubble.recordings import REPEATS, ROOT

MIXED = [
    ROOT / "tensor_core_gemm" / "stages1",
    ROOT / "tiled_matmul" / "default",
    ROOT / "tensor_core_gemm" / "stages3",
]
SLIM = REPEATS / "tensor_core_gemm" / "stages1"


def files(runs: list[Path]) -> list[Path]:
    return [run / "report.ncu-repz" for run in runs]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("composed") / "mixed.ncu-rep"
    path.write_bytes(compose.compose(files(MIXED), 4))
    return Report.open(path)


def of_launch(frame: pd.DataFrame, launch: int) -> pd.DataFrame:
    return frame[frame["launch"] == launch].drop(columns="launch").reset_index(drop=True)


@pytest.mark.parametrize("run", [*MIXED, SLIM], ids=lambda run: "/".join(run.parts[-2:]))
def test_blocks_are_written_as_they_were_read(run: Path) -> None:
    data = compose.plain_bytes(run / "report.ncu-repz")
    header, blocks = compose.read_blocks(data)
    written = [compose.write_block(one) for one in blocks]
    assert b"".join([b"NVR\0", len(header).to_bytes(4, "little"), header, *written]) == data


@pytest.mark.parametrize("frame", ["metrics", "timeline", "source"])
def test_a_composed_report_has_the_launches_of_its_sources_in_turn(mixed: Report, frame: str) -> None:
    assert list(mixed.launches["launch"]) == [0, 1, 2, 3]
    for launch, run in enumerate([*MIXED, MIXED[0]]):
        expected = of_launch(getattr(Report.open(run), frame), 0)
        assert len(expected)
        found = of_launch(getattr(mixed, frame), launch)[list(expected.columns)]
        pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_categorical=False)


def of_process_77(data: bytes) -> bytes:
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


def test_launches_keep_their_code_where_two_reports_number_process_and_module_alike(tmp_path: Path) -> None:
    alike = []
    for run in MIXED:
        alike.append(tmp_path / f"{run.name}.ncu-rep")
        alike[-1].write_bytes(of_process_77(compose.plain_bytes(run / "report.ncu-repz")))
    (tmp_path / "all.ncu-rep").write_bytes(compose.compose(alike, 3))
    source = Report.open(tmp_path / "all.ncu-rep").source
    for launch, run in enumerate(MIXED):
        expected = Report.open(run).source
        assert len(set(expected["sass"])) > 50
        assert list(of_launch(source, launch)["sass"]) == list(expected["sass"])


def test_reports_of_other_metrics_are_not_mixed() -> None:
    with pytest.raises(ValueError, match=r"stages1/report\.ncu-repz: its strings differ"):
        compose.compose([*files(MIXED), SLIM / "report.ncu-repz"], 4)


def test_a_report_cannot_be_composed_of_nothing() -> None:
    with pytest.raises(ValueError, match="no launch in no report"):
        compose.compose([], 4)
