"""The Program page: what it shows of recorded programs, of none and of damaged ones, and that names
of kernels and ranges stay text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.program.output import MOST_NODES, VIEWS, Node, tree
from ncubble.analysis.program.record import open_program
from ncubble.analysis.program.span import SpanChoice
from ncubble.analysis.traces.lanes import run_id
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import ProgramAddress
from ncubble.dashboard.pages.program import layout as program
from ncubble.dashboard.pages.program.layout import icicle, kinds_bar
from tests.helpers.dashboard_frames import HOSTILE
from tests.helpers.recorded_programs import program_of, torch_program, two_kernels
from tests.helpers.stream_frames import Script


class Store(ReportStore):
    """A store that nothing is read into, with these rows."""

    def __init__(self, *paths: Path, rows: list[dict[str, Any]] | None = None) -> None:
        super().__init__(list(paths))
        self.given = rows or []

    def rows(self) -> Any:
        return self.given


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torch_program(tmp_path_factory.mktemp("programs") / "train")


def texts(page: Any) -> str:
    return json.dumps(page.to_plotly_json(), default=lambda one: one.to_plotly_json(), ensure_ascii=False)


def page(store: Store, **address: Any) -> str:
    return texts(program.layout(store, ProgramAddress(**address)))  # type: ignore[arg-type]


def test_a_program_is_shown_with_links_to_the_kernels_that_were_profiled(torch: Path) -> None:
    rows = [{"path": str(torch), "launch": 0, "id": f"{'a' * 16}/0"}]
    shown = page(Store(torch.parent, rows=rows))
    assert "tensor work 24.9 %" in shown
    assert "lost between kernels 65.3 %" in shown
    assert "67.5 % of 30.3 ms is lost, 62.5 % to dependency: give independent chunks" in shown
    assert f'"href": "/kernel/{"a" * 16}/0"' in shown
    assert "not selected" in shown
    assert f"/timelines?run={run_id(torch)}" in shown
    assert "profiled kernels make up 78.8 %" in shown
    assert "Recorded programs" not in shown
    # Without the launch in the store there is no page to lead to.
    assert "/kernel/" not in page(Store(torch.parent))


def test_views_and_devices_are_addresses(torch: Path) -> None:
    shown = page(Store(torch.parent), by="cause")
    assert f"/program?run={run_id(torch)}&by=range" in shown
    peers = Path("recordings/h100-lanes/streams-peer").resolve()
    first, second = (page(Store(peers), device=number) for number in (0, 1))
    assert first != second
    assert page(Store(peers), device=77) == page(Store(peers))


def test_several_runs_are_listed_programs_first(torch: Path, tmp_path: Path) -> None:
    program_of(tmp_path / "a-run", two_kernels())
    (tmp_path / "a-run" / "program.json").unlink()
    shown = page(Store(tmp_path, torch), run=run_id(tmp_path / "a-run"))
    assert "2 runs" in shown
    assert 0 < shown.index('"children": "train"') < shown.index('"children": "a-run"') < shown.index("streams only")


def test_nothing_recorded_and_an_unknown_address_are_said(tmp_path: Path, torch: Path) -> None:
    assert "ncubble program -- python train.py" in page(Store(tmp_path))
    for run in ("0" * 16, "foo"):
        unknown = page(Store(torch.parent), run=run)
        assert "No recorded run has this address" in unknown
        assert "tensor work" not in unknown


def test_damaged_recordings_and_links_that_lead_out_are_one_card(tmp_path: Path) -> None:
    run = program_of(tmp_path / "shown" / "run", two_kernels())
    assert "kernels that were not profiled" in page(Store(tmp_path / "shown"))
    (run / "program.json").write_text("{")
    assert "Remedy: record the program again" in page(Store(tmp_path / "shown"))
    (run / "program.json").unlink()
    outside = tmp_path / "secret.ncu-repz"
    outside.write_bytes(b"x")
    (run / "report.ncu-repz").symlink_to(outside)
    assert "a link that leads out" in page(Store(tmp_path / "shown"))
    (run / "report.ncu-repz").unlink()
    (run / "activity.parquet").write_bytes(b"no parquet")
    assert "not readable" in page(Store(tmp_path / "shown"))


def test_a_rewritten_recording_is_read_anew(tmp_path: Path) -> None:
    run = program_of(tmp_path / "run", two_kernels())
    assert "110 µs" in page(Store(tmp_path))
    longer = two_kernels()
    longer.rows.loc[longer.rows["end_ns"] == 120_000, "end_ns"] = 310_000
    program_of(run, longer)
    assert "300 µs" in page(Store(tmp_path))


def summed(node: Node) -> None:
    """Members sum to their node, all the way down."""
    if node.members:
        assert sum(member.ns for member in node.members) == pytest.approx(node.ns)
    for member in node.members:
        summed(member)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_a_tree_whose_members_sum_to_the_span(view: str, torch: Path, tmp_path: Path) -> None:
    for run in (torch, program_of(tmp_path / "run", two_kernels())):
        (account,) = open_program(run).accounts
        root = tree(account, view)
        assert root.ns == pytest.approx(account.span.ns)
        summed(root)
        drawn = icicle(root).to_plotly_json()["data"][0]
        assert len(set(drawn["ids"])) == len(drawn["ids"])
        assert set(drawn["parents"]) <= {"", *drawn["ids"]}
        assert icicle(root).checked


def test_ranges_within_ranges_are_nodes_within_nodes(tmp_path: Path) -> None:
    (account,) = open_program(program_of(tmp_path / "run", two_kernels())).accounts
    (step,) = tree(account, "range").members
    assert step.label == "step"
    assert "forward" in [member.label for member in step.members]


def test_of_many_ranges_the_largest_are_nodes_and_the_rest_is_one(tmp_path: Path) -> None:
    script = Script()
    for step in range(MOST_NODES + 5):
        at = 1000.0 * step
        script.row("range", f"step {step}", at, at + 900, thread=5)
        script.kernel(at + 1, at + 10, at + 500 + step)
    (account,) = open_program(program_of(tmp_path / "run", script.recording()), SpanChoice(whole=True)).accounts
    root = tree(account, "range")
    assert len(root.members) <= MOST_NODES + 2
    assert any(member.label.endswith(" more ranges") for member in root.members)
    summed(root)
    assert root.ns == pytest.approx(account.span.ns)


def test_texts_of_programs_are_shown_as_text_only(tmp_path: Path) -> None:
    recording = two_kernels()
    recording.rows.loc[recording.rows["kind"].isin(("kernel", "range")), "name"] = HOSTILE
    run = program_of(tmp_path / "run", recording)

    def walk(part: Any) -> None:
        for name, value in part.to_plotly_json()["props"].items() if hasattr(part, "to_plotly_json") else ():
            plain = json.dumps(value, default=lambda one: "")
            assert name in ("children", "aria-label", "title") or HOSTILE not in plain, name
            for one in value if isinstance(value, list) else [value]:
                walk(one)

    walk(program.layout(Store(run), ProgramAddress(by="range")))  # type: ignore[arg-type]
    bar = kinds_bar([("tensor work", 60.0, program.output.kind_shares(open_program(run).accounts[0])[0][2])])
    assert bar.checked
