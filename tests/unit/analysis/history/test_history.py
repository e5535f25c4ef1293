"""The history of the gate: rows of a check, files that appear whole, merging, and folders with
anything in them."""

from __future__ import annotations

import json
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.verdicts import CheckOptions, GateResult
from ncubble.analysis.history import file as history_file
from ncubble.analysis.history.file import HistoryReader, append, merge
from ncubble.analysis.history.rows import COLUMNS, LONGEST, Occasion, rows
from ncubble.recordings import CHECKS
from ncubble.store import lock_path
from tests.helpers.gate_frames import gemm, groups, recorded, report

WHEN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FAN = 4
MANIFEST = {"started": "2026-11-21T10:00:00Z", "git": {"sha": "a" * 40, "dirty": True}}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge sooner than in life, so that tests write few files."""
    monkeypatch.setattr(history_file, "FAN", FAN)


def judged(*reports: Any, errors: Any = (), baselines: Any = None) -> GateResult:
    known = recorded(report()) if baselines is None else baselines
    return check(groups(*reports), known, CheckOptions(), errors)


def of_check(number: int = 0, tensor: float = 43.0, **occasion: Any) -> list[dict[str, Any]]:
    """The rows of one check of one kernel, ``number`` minutes after the first."""
    result = judged(report([tensor + 0.01 * i for i in range(5)], key=f"{number:016x}", manifest=MANIFEST))
    return rows(result, Occasion(checked=WHEN + timedelta(minutes=number), **occasion))


def by_metric(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in found}


def test_a_regression_is_told_with_its_numbers_and_origin() -> None:
    found = by_metric(of_check(tensor=40.0, paths=["runs/new"], sha="b" * 40, version="1.2"))
    row = found["tensor_elapsed_pct"]
    assert (row["verdict"], row["kernel_verdict"], row["gate_verdict"], row["exit_code"]) == (
        *["regressed"] * 3,
        1,
    )
    assert row["mean"] == pytest.approx(40.02) and row["n"] == 5 and row["values"][0] == 40.0
    assert row["threshold"] == pytest.approx(row["baseline_mean"] * (1 - row["decision_pct"] / 100))
    assert row["baseline_mean"] > row["threshold"] > row["mean"]
    assert found["cycles"]["threshold"] > found["cycles"]["baseline_mean"]
    assert (row["git_sha"], row["git_dirty"], row["checked_sha"], row["paths"]) == (
        "a" * 40,
        True,
        "b" * 40,
        ["runs/new"],
    )
    assert row["reports"] == ["0" * 16] and row["measured"] == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert json.loads(row["parameters"]) == {"stages": 3} and row["device"] == "NVIDIA H200"
    assert found["dram_pct"]["threshold"] is None and found["dram_pct"]["verdict"] == "info"


@pytest.mark.parametrize(
    ("result", "verdict", "said"),
    [
        (judged(report(kernel=gemm(5))), "not_comparable", "no baseline"),
        (judged(report(ncu_version="2026.1")), "not_comparable", "different ncu"),
        (judged(report(counters={})), "nothing_measured", "was not collected"),
        (judged(errors=[("x.ncu-rep", "damaged")]), "nothing_measured", "no kernel was checked"),
    ],
)
def test_what_could_not_be_judged_has_a_row_with_its_reason(result: GateResult, verdict: str, said: str) -> None:
    found = rows(result, Occasion())
    assert {row["kernel_verdict"] for row in found} == {verdict}
    assert said in str(found[0]["kernel_reason"])
    assert found[0]["exit_code"] == 3


def test_reasons_and_errors_are_limited_and_every_row_fits_the_schema() -> None:
    found = rows(judged(report(), errors=[("x" * 9000, "damaged")]), Occasion())
    assert len(found[0]["gate_errors"][0]) == LONGEST
    table = pa.Table.from_pylist(found, schema=COLUMNS)
    assert table.num_rows == len(found) and set(found[0]) <= set(COLUMNS.names)


def test_the_gpu_of_a_check_is_kept(tmp_path: Path) -> None:
    several = [report(key=f"{n:016x}", manifest=MANIFEST | {"device": {"uuid": f"GPU-{n}"}}) for n in (2, 1)]
    append(tmp_path, rows(judged(*several), Occasion()))
    assert HistoryReader(tmp_path).read().table["gpu"].to_pylist()[0] == ["GPU-1", "GPU-2"]


def test_files_of_the_first_schema_are_read_and_merged_with_newer_ones(tmp_path: Path) -> None:
    old = append(tmp_path, of_check(1))
    plain = pq.read_table(old).drop_columns(["gpu"]).replace_schema_metadata({"ncubble.checks": "1"})
    pq.write_table(plain, old)
    for number in range(2, FAN + 1):
        append(tmp_path, of_check(number))
    history = HistoryReader(tmp_path).read()
    assert not history.problems and not old.exists()
    assert len(history.table) == FAN * len(of_check())
    assert history.table["gpu"].to_pylist()[: len(of_check())] == [None] * len(of_check())
    shipped = HistoryReader(CHECKS).read()
    assert not shipped.problems and len(shipped.table) > 100


def test_what_is_appended_is_read_in_order_of_time(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checks"
    for number in (3, 1, 2):
        append(folder, of_check(number))
    table = HistoryReader(folder).read().table
    times = table["checked"].to_pylist()
    assert times == sorted(times) and len(set(times)) == 3
    assert table.column_names == COLUMNS.names
    assert not [path for path in folder.iterdir() if path.name.startswith(history_file.UNFINISHED)]


def test_a_reader_sees_new_checks_and_reads_old_ones_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = HistoryReader(tmp_path)
    assert len(reader.read().table) == 0
    append(tmp_path, of_check(1))
    first = reader.read()
    assert reader.read() is first
    append(tmp_path, of_check(2))
    asked: list[Path] = []
    original = history_file._read
    monkeypatch.setattr(history_file, "_read", lambda path: asked.append(path) or original(path))
    second = reader.read()
    assert len(second.table) == 2 * len(first.table) and second.token != first.token and len(asked) == 1


def test_many_checks_become_few_files_and_lose_no_row(tmp_path: Path) -> None:
    one = of_check(1)
    count = 2 * FAN + 3
    for number in range(count):
        when = WHEN + timedelta(minutes=number)
        append(tmp_path, [row | {"check": f"{when:%Y%m%dT%H%M%S}-{number:012x}", "checked": when} for row in one])
    assert len(list(tmp_path.glob("*.parquet"))) == 2 + 3  # two packs, three single checks
    table = HistoryReader(tmp_path).read().table
    assert len(table) == count * len(one) and len(set(table["check"].to_pylist())) == count


def test_a_merge_that_was_cut_off_shows_no_row_twice(tmp_path: Path) -> None:
    paths = [append(tmp_path, of_check(number)) for number in range(FAN - 1)]
    kept = [(path, path.read_bytes()) for path in paths]
    last = append(tmp_path, of_check(FAN))
    assert not last.exists()
    for path, data in kept:
        path.write_bytes(data)
    table = HistoryReader(tmp_path).read().table
    assert len(set(table["check"].to_pylist())) == FAN
    assert len(table) == FAN * len(of_check())


def test_large_files_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "PACKED_B", 1000)
    for number in range(FAN + 1):
        append(tmp_path, of_check(number))
    assert len(list(tmp_path.glob("check-*.parquet"))) == FAN + 1


def test_only_one_process_merges(tmp_path: Path) -> None:
    one = of_check(1)
    with history_file._alone(tmp_path) as first:
        assert first
        for number in range(FAN + 1):
            append(tmp_path, [row | {"check": f"20261121T120000-{number:012x}"} for row in one])
        assert len(list(tmp_path.glob("*.parquet"))) == FAN + 1
    assert merge(tmp_path) == FAN


def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    one = of_check(1)

    def write(worker: int) -> None:
        for number in range(8):
            append(tmp_path, [row | {"check": f"20261121T1200{number:02d}-{worker:012x}"} for row in one])

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(HistoryReader(tmp_path).read().table) == 32 * len(one)


def _rewritten(path: Path, change: Any) -> None:
    pq.write_table(change(pq.read_table(path)), path)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), "not readable as Parquet"),
        (lambda path: path.write_bytes(b""), "not readable as Parquet"),
        (lambda path: path.write_text("kernel,verdict\n"), "not readable as Parquet"),
        (lambda path: pq.write_table(pa.table({"a": [1]}), path), "not a history of checks"),
        (
            lambda path: _rewritten(path, lambda table: table.replace_schema_metadata({"ncubble.checks": "3"})),
            "schema 3 is newer than 2",
        ),
        (lambda path: _rewritten(path, lambda table: table.drop_columns(["verdict"])), "lacks the column 'verdict'"),
        (
            lambda path: _rewritten(
                path,
                lambda table: table.set_column(
                    table.column_names.index("checked"), "checked", pa.array(["now"] * len(table))
                ),
            ),
            "column 'checked' has the wrong type",
        ),
    ],
)
def test_an_unusable_file_is_named_and_hides_no_other(tmp_path: Path, spoil: Any, said: str) -> None:
    append(tmp_path, of_check(1))
    path = append(tmp_path, of_check(2))
    spoil(path)
    history = HistoryReader(tmp_path).read()
    (problem,) = history.problems
    assert problem.name == path.name and said in problem.error and problem.remedy
    assert len(set(history.table["check"].to_pylist())) == 1
    for number in range(FAN):  # and merging leaves it alone
        append(tmp_path, of_check(10 + number))
    assert path.exists() and len(HistoryReader(tmp_path).read().problems) == 1


def test_links_and_folders_are_refused(tmp_path: Path) -> None:
    outside = append(tmp_path / "elsewhere", of_check(1))
    folder = tmp_path / "checks"
    folder.mkdir()
    (folder / outside.name).symlink_to(outside)
    (folder / "folder.parquet").mkdir()
    history = HistoryReader(folder).read()
    assert len(history.table) == 0 and len(history.problems) == 2


def test_an_older_file_without_a_column_reads_as_not_collected(tmp_path: Path) -> None:
    path = append(tmp_path, of_check(1))
    _rewritten(path, lambda table: table.drop_columns(["p_value", "driver"]))
    history = HistoryReader(tmp_path).read()
    assert not history.problems and set(history.table["driver"].to_pylist()) == {None}


def test_only_the_newest_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        append(tmp_path, of_check(number))
    size = len(of_check())
    monkeypatch.setattr(history_file, "MOST_ROWS", 2 * size)
    history = HistoryReader(tmp_path).read()
    assert history.left_out == size
    assert min(history.table["checked"].to_pylist()) == WHEN + timedelta(minutes=1)


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    history = HistoryReader(tmp_path / "none").read()
    assert (len(history.table), history.problems) == (0, ())


class TestCommand:
    """``ncubble check`` over made-up reports."""

    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        known = {"old": report(), "good": report(), "bad": report([40.0] * 5)}
        monkeypatch.chdir(tmp_path)
        for name in ("check._open", "baselines.open_all"):
            monkeypatch.setattr(
                f"ncubble.cli.commands.check.{name}", lambda paths, kernel: ([known[str(p)] for p in paths], [])
            )
        assert self.run("baseline", "record", "old") == 0

    def run(self, *argv: str) -> int:
        from ncubble.cli.main import main

        with pytest.raises(SystemExit) as caught:
            main(list(argv))
        return int(caught.value.code or 0)

    def test_every_check_is_kept(self) -> None:
        assert self.run("check", "good") == 0
        assert self.run("check", "bad", "--history", "mine") == 1
        assert set(HistoryReader(Path("checks")).read().table["gate_verdict"].to_pylist()) == {"pass"}
        assert set(HistoryReader(Path("mine")).read().table["gate_verdict"].to_pylist()) == {"regressed"}

    def test_none_is_kept_where_that_is_asked_for(self) -> None:
        assert self.run("check", "good", "--no-history") == 0
        assert not Path("checks").exists()
        assert self.run("check", "good", "--no-history", "--history", "mine") == 2

    def test_a_folder_that_cannot_be_written_hides_no_regression(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("checks").write_text("a file")
        assert self.run("check", "good") == 0
        assert "was not added to the history" in capsys.readouterr().err
        assert self.run("check", "bad", "--history", "checks") == 2
        assert self.run("check", "good", "--history", "checks/deeper") == 3
        assert self.run("check", "bad", "--history", "checks/deeper") == 1

    def test_git_sees_no_history(self, capsys: pytest.CaptureFixture[str]) -> None:
        subprocess.run(["git", "init", "--quiet"], check=True)
        subprocess.run(["git", "add", "--all"], check=True)  # the baselines
        assert self.run("check", "good") == 0
        assert "note: results are kept in checks, which git ignores" in capsys.readouterr().err
        assert self.run("check", "good", "--history", "perf/mine") == 0
        assert self.run("check", "good") == 0
        assert capsys.readouterr().err.count("results are kept") == 1
        seen = ["git", "status", "--porcelain", "--untracked-files=all"]
        untracked = subprocess.run(seen, capture_output=True, text=True, check=True).stdout
        assert "baselines" in untracked and "checks" not in untracked and "perf" not in untracked

    def test_a_folder_that_was_there_is_the_users(self) -> None:
        Path("checks").mkdir()
        assert self.run("check", "good") == 0
        assert not Path("checks/.gitignore").exists() and list(Path("checks").glob("*.parquet"))

    @pytest.mark.parametrize("kind", ["a symbolic link", "a directory"])
    def test_what_stands_in_the_place_of_its_lock_is_told(self, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
        Path("checks").mkdir()
        if kind == "a directory":
            Path("checks/.lock").mkdir()
        else:
            Path("checks/.lock").symlink_to("../target")
        assert self.run("check", "good") == 0
        told = capsys.readouterr().err
        assert f"note: checks/.lock: is {kind}" in told and "remedy: remove it: checks/.lock" in told
        assert self.run("check", "good", "--history", "checks") == 3
        assert self.run("check", "bad", "--history", "checks") == 1
        assert len(HistoryReader(Path("checks")).read().table["check"].unique()) == 3
        assert not Path("target").exists()

    def test_a_link_in_the_place_of_the_lock_of_baselines_ends_record_with_a_remedy(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        lock = lock_path(f"baselines {tmp_path / 'baselines'}")
        lock.symlink_to(tmp_path / "target")
        assert self.run("baseline", "record", "old", "--force") == 3
        told = capsys.readouterr().err
        assert f"{lock}: is a symbolic link" in told and f"remedy: remove it: {lock}" in told
        assert "Traceback" not in told and not (tmp_path / "target").exists()
