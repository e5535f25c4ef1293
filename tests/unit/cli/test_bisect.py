"""``git bisect run ncubble check --bisect-exit``: over a real git history, with launches
whose noise was recorded on an H200, git names the planted commit; what cannot be judged is skipped,
and what no commit can help ends the search."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.cli.main import main
from tests.helpers.played_runs import SPEED

ROOT = Path(__file__).parents[3]
MINE = Path("mine")
CHECK = (sys.executable, "-m", "tests.helpers.played_check", "check", "--bisect-exit")
AGAINST = ("--against", "good", "saxpy", "--setting", "catalog=mine", "--setting", "rounds=2", "--no-history")


class History:
    """A repository with the catalog ``mine``, whose kernel is as fast as the file ``speed``
    says."""

    def __init__(self, root, environ):
        self.root, self.environ, self.number = root, environ, 0

    def git(self, *arguments):
        argv = ["git", "-C", str(self.root), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, env=self.environ)
        return done.returncode, done.stdout + done.stderr

    def commit(self, speed=None, **files):
        self.number += 1
        if speed is not None:
            files[SPEED] = str(speed)
        for name, text in files.items():
            (self.root / MINE / name).write_text(text)
        (self.root / "notes").write_text(str(self.number))
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"Change {self.number}")
        return self.git("rev-parse", "HEAD")[1].strip()

    def bisect(self, *arguments):
        """Exit code and output of a search from ``good`` to HEAD."""
        self.git("bisect", "start", "HEAD", "good")
        return self.git("bisect", "run", *CHECK, *arguments)


@pytest.fixture
def history(tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": os.devnull, "TMPDIR": str(tmp_path / "tmp")}
    for role in ("AUTHOR", "COMMITTER"):
        environ |= {f"GIT_{role}_NAME": "Ada", f"GIT_{role}_EMAIL": "a@b.c"}
    root = tmp_path / "repo"
    (tmp_path / "tmp").mkdir()
    shutil.copytree(ROOT / "tests" / "data" / "catalog", root / MINE, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".gitignore").write_text("runs\n__pycache__\n")
    made = History(root, environ)
    made.git("init", "-q", "-b", "main")
    made.commit(1.0)
    made.git("tag", "good")
    return made


def test_git_names_the_commit_that_made_a_kernel_slower(history):
    shas = [history.commit(speed) for speed in [1.0] * 4 + [0.97] * 3]
    code, text = history.bisect(*AGAINST)
    assert code == 0, text
    assert f"{shas[4]} is the first bad commit" in text
    left = [path.name for path in (history.root.parent / "tmp").iterdir() if path.suffix != ".lock"]
    assert left == [] and not (history.root / ".git" / "worktrees").exists()


def test_a_commit_that_does_not_build_is_skipped(history):
    shas = [history.commit(1.0)]
    broken = history.commit(0.9, broken="x")
    (history.root / MINE / "broken").unlink()
    shas += [history.commit() for _ in range(2)]
    code, text = history.bisect(*AGAINST)
    assert code == 2 and "only 'skip'ped commits left to test" in text, text
    assert "nvcc says no" in text
    assert [sha in text.partition("could be any of")[2] for sha in (broken, shas[1], shas[0])] == [True, True, False]


@pytest.mark.parametrize(
    ("arguments", "more", "says"),
    [
        (AGAINST, {"NO_COUNTERS": "1"}, "ERR_NVGPUCTRPERM"),
        ((*AGAINST, "--ruel", "cycles 2%"), {}, "No such option"),
        ((*AGAINST, "--rule", "speed 2%"), {}, "no metric or account part called 'speed'"),
        (("--against", "god", *AGAINST[2:]), {}, "no such revision"),
    ],
    ids=["no permission", "no such option", "no such metric", "no such revision"],
)
def test_what_no_commit_can_help_ends_the_search(history, arguments, more, says):
    for speed in (1.0, 0.9, 0.9):
        history.commit(speed)
    history.environ.update(more)
    code, text = history.bisect(*arguments)
    assert code != 0 and says in text and "exit code 128" in text
    assert "first bad commit" not in text.replace("cannot find the first bad commit", "")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["recordings/h200-gate/wait_for_all_copies"], 1),
        (["recordings/h200/gemm_tma"], 125),
        (["recordings/h200-repeats/tensor_core_gemm/stages3"], 0),
        (["recordings/none"], 125),
        (["--profile", "nowhere"], 125),
    ],
    ids=["regressed", "not judged", "passed", "no such path", "no such kernel"],
)
def test_exit_codes_for_git(repository, monkeypatch, capsys, words, code):
    monkeypatch.chdir(repository)
    with pytest.raises(SystemExit) as ended:
        main(["check", "--bisect-exit", "--no-history", *words])
    assert (ended.value.code or 0) == code, capsys.readouterr()
