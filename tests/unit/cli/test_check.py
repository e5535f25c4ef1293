"""``ncubble check`` over reports that a test makes up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.analysis.gate.history import FILE, read
from ncubble.cli.main import main
from ncubble.recordings import REPEATS
from ncubble.store import lock_path
from tests.helpers.gate_frames import report


def run(*argv: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(argv))
    return int(caught.value.code or 0)


def verdicts(folder: str) -> list[str]:
    return [check.verdict for check in read(Path(folder)).checks]


class TestHistory:
    """Results of checks are kept in a folder."""

    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        known = {"old": report(), "good": report(), "bad": report([40.0] * 5)}
        monkeypatch.chdir(tmp_path)
        opened = "ncubble.analysis.report.report.open_reports"
        monkeypatch.setattr(opened, lambda paths, *_, **__: ([known[str(p)] for p in paths], []))
        assert run("baseline", "old") == 0

    def test_every_check_is_kept(self) -> None:
        assert run("check", "good") == 0
        assert run("check", "bad", "--history", "mine") == 1
        assert (verdicts("checks"), verdicts("mine")) == (["pass"], ["regressed"])

    def test_none_is_kept_where_that_is_asked_for(self) -> None:
        assert run("check", "good", "--no-history") == 0
        assert not Path("checks").exists()
        assert run("check", "good", "--no-history", "--history", "mine") == 2

    def test_a_folder_that_cannot_be_written_hides_no_regression(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("checks").write_text("a file")
        assert run("check", "good") == 0
        assert "was not added to the history" in capsys.readouterr().err
        assert run("check", "bad", "--history", "checks") == 2
        assert run("check", "good", "--history", "checks/deeper") == 3
        assert run("check", "bad", "--history", "checks/deeper") == 1

    def test_git_sees_no_history(self, capsys: pytest.CaptureFixture[str]) -> None:
        subprocess.run(["git", "init", "--quiet"], check=True)
        subprocess.run(["git", "add", "--all"], check=True)  # the baselines
        assert run("check", "good") == 0
        assert "note: results are kept in checks, which git ignores" in capsys.readouterr().err
        assert run("check", "good", "--history", "perf/mine") == 0
        assert run("check", "good") == 0
        assert capsys.readouterr().err.count("results are kept") == 1
        seen = ["git", "status", "--porcelain", "--untracked-files=all"]
        untracked = subprocess.run(seen, capture_output=True, text=True, check=True).stdout
        assert "baselines" in untracked and "checks" not in untracked and "perf" not in untracked

    def test_a_folder_that_was_there_is_the_users(self) -> None:
        Path("checks").mkdir()
        assert run("check", "good") == 0
        assert [item.name for item in Path("checks").iterdir()] == [FILE]

    @pytest.mark.parametrize("kind", ["a symbolic link", "a directory"])
    def test_what_stands_in_the_place_of_the_history_is_told(
        self, kind: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("checks").mkdir()
        place = Path("checks") / FILE
        if kind == "a directory":
            place.mkdir()
        else:
            place.symlink_to("../target")
        assert run("check", "good") == 0
        told = capsys.readouterr().err
        assert f"note: {place}: is {kind}" in told and f"remedy: remove it: {place}" in told
        assert run("check", "good", "--history", "checks") == 3
        assert run("check", "bad", "--history", "checks") == 1
        assert not Path("target").exists()

    def test_a_link_in_the_place_of_the_lock_of_baselines_ends_record_with_a_remedy(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        lock = lock_path(f"baselines {tmp_path / 'baselines'}")
        lock.symlink_to(tmp_path / "target")
        assert run("baseline", "old", "--force") == 3
        told = capsys.readouterr().err
        assert f"{lock}: is a symbolic link" in told and f"remedy: remove it: {lock}" in told
        assert "Traceback" not in told and not (tmp_path / "target").exists()


@pytest.mark.parametrize(("rule", "code"), [("cycles <= 1", 1), ("cycles <= 1e15", 3)])
def test_a_closed_standard_output_hides_no_verdict(tmp_path, rule, code):
    argv = [sys.executable, "-c", "from ncubble.cli.start import main; main()", "check"]
    more = [str(REPEATS / "tensor_core_gemm" / "stages1"), "--allow-new", "--baseline", str(tmp_path), "--no-history"]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *argv, *more, "--rule", rule]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert "standard output" in done.stderr and "Traceback" not in done.stderr


def test_a_full_disk_hides_no_verdict(tmp_path):
    """``/dev/full`` refuses every write, also the one at the end of the process."""
    run = REPEATS / "tensor_core_gemm" / "stages1"
    start = "from ncubble.cli.start import main; main()"
    argv = [sys.executable, "-c", start, "check", str(run), "--allow-new", "--baseline", str(tmp_path), "--no-history"]
    for rule, code in (("cycles <= 1", 1), ("cycles <= 1e15", 0)):
        for stderr in (subprocess.PIPE, None):
            with Path("/dev/full").open("w") as full:
                done = subprocess.run(
                    [*argv, "--rule", rule], stdout=full, stderr=stderr or full, text=True, timeout=120, check=False
                )
            assert done.returncode == (code or 3), done.stderr
            assert stderr is None or "standard output: could not be written" in done.stderr
            assert stderr is None or "Traceback" not in done.stderr
