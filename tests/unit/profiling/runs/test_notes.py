"""Tags and notes of runs: where they are kept, what is refused, and that nothing else changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ncubble
from ncubble.cli.main import main
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel.head import head
from ncubble.errors import ReportError, UsageError
from ncubble.profiling.runs import LONGEST_NOTE, MOST_TAGS, Run, RunNotes, place_of
from ncubble.profiling.staging import check_target
from ncubble.recordings import ROOT
from tests.helpers.dashboard_frames import texts, view

RECORDED = ROOT / "gemm_tma" / "stages2"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "run"))


def test_what_was_written_is_read_again_and_the_run_stays_as_it_is(run: Path) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    loaded = Run.load(run)
    RunNotes().changed(add=["baseline", "h200"], note="Two stages.\n<b>Before</b> the third.\n").save(loaded)
    found = RunNotes.of(loaded)
    assert found == RunNotes(("baseline", "h200"), "Two stages.\n<b>Before</b> the third.")
    found.changed(remove=["baseline"], note="").save(loaded)
    assert RunNotes.of(loaded) == RunNotes(("h200",))
    found.changed(remove=["baseline", "h200"], note="").save(loaded)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_notes_of_bare_reports_lie_beside_them(run: Path, tmp_path: Path) -> None:
    bare = tmp_path / "x.ncu-repz"
    shutil.copy(run / "report.ncu-repz", bare)
    assert place_of(Run.load(bare)) == tmp_path / "x.ncu-repz.notes.json"
    assert place_of(Run.load(run / "report.ncu-repz")) == place_of(Run.load(run)) == run / "notes.json"


def test_a_tagged_run_may_be_replaced(run: Path) -> None:
    RunNotes(("x",)).save(Run.load(run))
    check_target(run, force=True)


@pytest.mark.parametrize(
    ("tags", "note", "says"),
    [
        (["<b>"], "", "is not a valid tag"),
        ([""], "", "is not a valid tag"),
        (["two words"], "", "is not a valid tag"),
        (["x" * 41], "", "is not a valid tag"),
        ([f"t{number}" for number in range(MOST_TAGS + 1)], "", "21 tags"),
        ([], "x" * (LONGEST_NOTE + 1), "a note of 4001"),
        ([], "\x1b[31m", "cannot be displayed"),
        ([], "\u202e", "cannot be displayed"),
    ],
)
def test_what_is_no_tag_or_note_is_refused(tags: list[str], note: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        RunNotes().changed(add=tags, note=note)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"schema": 2}', '{"schema": 1, "tags": "x"}', '{"schema": 1, "tags": ["<b>"]}', "[" * 100_000],
)
def test_a_damaged_file_is_named(run: Path, text: str) -> None:
    (run / "notes.json").write_text(text)
    with pytest.raises(ReportError, match=r"notes\.json: not the notes of a run"):
        RunNotes.of(Run.load(run))


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["note", *arguments])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_the_command_writes_and_shows_notes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = told(capsys, str(run), "--tag", "baseline", "--text", "Two stages.")
    assert (code, out) == (0, f"{run}: baseline\n  Two stages.\n")
    assert told(capsys, str(run), "--untag", "baseline") == (0, f"{run}: no tags\n  Two stages.\n")
    assert told(capsys, str(run), "--untag", "other")[0] == 2
    assert told(capsys, str(run.parent / "none"))[0] == 2


def test_one_wrong_run_leaves_all_as_they_were(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = Path(shutil.copytree(RECORDED, tmp_path / "z"))
    (other / "notes.json").write_text("[]")
    assert told(capsys, str(tmp_path), "--tag", "x")[0] == 3
    assert not (run / "notes.json").exists()


def test_the_library_tags_and_chooses_by_tag(run: Path) -> None:
    assert ncubble.annotate(run, add=["baseline"], note="n") == (("baseline",), "n")
    r = ncubble.load(run, ROOT / "gemm_tma" / "stages3")
    assert (r[0].tags, r[0].note, r[1].tags) == (("baseline",), "n", ())
    assert [launch.report for launch in r.tagged("baseline")] == [str(run)]
    assert len(r.tagged("other")) == 0
    assert ncubble.annotate(ncubble.load(run)[0], add="abc") == (("baseline", "abc"), "n")
    ncubble.annotate(run, remove=["baseline", "abc"])
    assert r[0].tags == ()


def test_the_kernel_page_shows_them_as_text(run: Path) -> None:
    RunNotes(("baseline",), "<b>bold</b>").save(Run.load(run))
    assert {"baseline", "<b>bold</b>"} <= set(page_head(run))
    (run / "notes.json").write_text("[]")
    assert any("not the notes of a run" in text for text in page_head(run))


def page_head(run: Path) -> list[str]:
    store = ReportStore([run]).start()
    assert store.wait(60)
    return texts(head(view(store, store.rows()[0]["id"].split("/")[0])))
