"""A folder of reports leads nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ncubble.dashboard.data.roots import leads_out
from ncubble.dashboard.data.store import ReportStore
from ncubble.recordings import ROOT


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """An intact report that nobody named."""
    (tmp_path / "elsewhere").mkdir()
    found = next(ROOT.rglob("report.ncu-repz"))
    return Path(shutil.copy(found, tmp_path / "elsewhere" / "secret.ncu-repz"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_a_link_out_of_the_folder_is_told_from_one_within_it(root: Path, outside: Path) -> None:
    (root / "out.ncu-repz").symlink_to(outside)
    (root / "here.ncu-rep").write_bytes(b"")
    (root / "within.ncu-rep").symlink_to("here.ncu-rep")
    assert leads_out(root / "out.ncu-repz", [root])
    assert not leads_out(root / "within.ncu-rep", [root]) and not leads_out(root / "here.ncu-rep", [root])
    assert not leads_out(root / "out.ncu-repz", [root, outside.parent])
    assert not leads_out(root / "out.ncu-repz", [root / "out.ncu-repz"])


@pytest.mark.parametrize("name", ["report.ncu-rep", "report.ncu-repz", "run.json", "ablation.json"])
def test_no_part_of_a_run_may_lie_elsewhere(root: Path, outside: Path, name: str) -> None:
    (root / "run").mkdir()
    (root / "run" / name).symlink_to(outside)
    assert leads_out(root / "run", [root])


@pytest.mark.parametrize("name", ["run.json", "ablation.json"])
def test_what_lies_beside_a_report_file_may_not_lie_elsewhere(root: Path, outside: Path, name: str) -> None:
    (root / "report.ncu-rep").write_bytes(b"")
    (root / name).symlink_to(outside)
    assert leads_out(root / "report.ncu-rep", [root])


def test_a_root_that_is_reached_through_a_link_holds_what_lies_in_it(tmp_path: Path, root: Path) -> None:
    (root / "target.ncu-rep").write_bytes(b"")
    (root / "one.ncu-rep").symlink_to(root / "target.ncu-rep")
    (tmp_path / "linked").symlink_to(root)
    assert not leads_out(tmp_path / "linked" / "one.ncu-rep", [tmp_path / "linked"])


def test_the_store_refuses_links_out_and_follows_no_folder(root: Path, outside: Path) -> None:
    (root / "out.ncu-repz").symlink_to(outside)
    (root / "folder").symlink_to(outside.parent)
    store = ReportStore([root])
    assert store.start().wait(60)
    assert store.rows() == []
    assert [(failure.where, "leads out" in failure.error) for failure in store.failures()] == [
        (str(root / "out.ncu-repz"), True)
    ]


def test_a_file_that_is_no_longer_wanted_is_forgotten(root: Path, outside: Path) -> None:
    store = ReportStore([root])
    assert store.start().wait(60)
    store.add(outside, shown_as="from the browser")
    assert store.wait(60)
    assert [row["path"] for row in store.rows()] == ["from the browser"]
    store.drop(outside)
    assert store.wait(60)
    assert store.rows() == [] and store.state_of(outside) is None
