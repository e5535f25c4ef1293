"""``ncubble check --against REV``: both trees are measured in turns, judged by the gate's test, and
nothing is left."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import typer

from ncubble.analysis.gate.repeats import Repeats
from ncubble.analysis.gate.settings import GateSettings
from ncubble.api.measuring import CheckRequest, measure_against
from ncubble.cli.main import main
from ncubble.cli.terminal import recording
from ncubble.errors import NcubbleError, UsageError
from ncubble.kernels.run import other_tree
from ncubble.profiling import revisions
from ncubble.profiling.failures import CounterPermissionError
from tests.helpers.gate_frames import gemm
from tests.helpers.played_runs import SPEED, Player

CATALOG = Path(__file__).parents[2] / "data" / "catalog"


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "change")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with the catalog ``mine``, in which the working directory lies; ``before`` is as
    fast as HEAD."""
    root, temporary = tmp_path / "repo", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(revisions.tempfile, "gettempdir", lambda: str(temporary))
    for name, value in (("NAME", "A"), ("EMAIL", "a@b.c")):
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    shutil.copytree(CATALOG, root / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "mine" / SPEED).write_text("1")
    (root / SPEED).write_text("1")
    (root / ".gitignore").write_text("runs\nchecks\n__pycache__\n")
    git(root, "init", "-q", "-b", "main")
    commit(root)
    git(root, "tag", "before")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def player(monkeypatch):
    """Describes kernels in this process, and plays their launches."""

    def describe(request, side, name):
        arguments = [name, *(text for item in request.of_kernel for text in ("-p", item))]
        told = other_tree.describe([*arguments, "--catalog", str(side.folder)])
        return told["label"], told["function"]

    monkeypatch.setattr("ncubble.api.measuring.describe_side", describe)
    return Player(gemm()).install(monkeypatch)


def run(capsys, *argv):
    with pytest.raises(SystemExit) as ended:
        main(["check", *argv])
    output = capsys.readouterr()
    return ended.value.code or 0, output.out, output.err


def untouched(root):
    return not (root / ".git" / "worktrees").exists() and list((root.parent / "tmp").iterdir()) == []


OURS = ("--setting", "catalog=mine")
MINE = ("--against", "before", "saxpy", *OURS)


def test_a_slower_working_tree_is_a_regression_and_uncommitted_changes_are_named(capsys, repository, player):
    (repository / "mine" / SPEED).write_text("0.97")
    code, out, err = run(capsys, *MINE, "-p", "threads=128", "--json")
    answer = json.loads(out)
    assert code == 1
    assert answer["kernels"][0]["verdict"] == "regressed"
    assert "with 1 changed file (mine/speed)" in " ".join(answer["notes"])
    assert "(A B B A A B; A is the baseline)" in " ".join(answer["notes"])
    assert "ncubble compare runs/" in err
    assert untouched(repository)
    folders = [request.place.folder.name for request in player.requests]
    assert folders == ["mine"] * 6
    owners = ["B" if request.place.folder.is_relative_to(repository) else "A" for request in player.requests]
    assert owners == list("ABBAAB")
    assert [request.out.parts[-2:] for request in player.requests][:3] == [("a", "1"), ("b", "1"), ("b", "2")]
    one = player.requests[0]
    assert one.program[-6:] == ["--catalog", str(one.place.folder), "--once", "--no-verify", "--launches", "5"]
    assert one.place.git == {"sha": git(repository, "rev-parse", "before"), "dirty": False}
    assert player.requests[1].place.git["dirty"]
    assert one.place.env["NCUBBLE_CACHE"].startswith(str(repository.parent / "tmp"))


def test_the_same_speed_passes_and_the_same_commit_is_told(capsys, repository, player):
    code, out, _ = run(capsys, *MINE, "--setting", "rounds=2", "--setting", "sets=tensor,dram", "--no-history")
    assert code == 0
    assert "both sides are the same commit" in out
    assert player.requests[0].sets == ("tensor", "dram")
    assert sorted(path.name for path in next(Path("runs").iterdir()).iterdir()) == ["a", "b"]


def test_a_kernel_that_the_revision_lacks_is_not_comparable_and_nothing_is_measured(capsys, repository, player):
    source = (repository / "mine" / "saxpy.py").read_text()
    (repository / "mine" / "newer.py").write_text(source.replace('"saxpy"', '"newer"'))
    code, out, _ = run(capsys, "--against", "before", "newer", *OURS, "--json", "--no-history")
    (kernel,) = json.loads(out)["kernels"]
    assert (code, kernel["verdict"]) == (3, "not_comparable")
    assert "1 untracked file (mine/newer.py)" in out and "in turns" not in out
    assert "before (" in kernel["reason"] and "there is no kernel 'newer'" in kernel["reason"]
    assert player.requests == []
    code, _, err = run(capsys, "--against", "before", "nowhere", *OURS)
    assert (code, "there is no kernel 'nowhere'" in err) == (2, True)


def measure(names=("saxpy",), **more):
    """What the command does up to the verdict, without the time that its command line takes to
    build."""
    asked = {"catalog": Path("mine"), **more}
    settings = {key: asked.pop(key) for key in list(asked) if key in GateSettings.__dataclass_fields__}
    request = CheckRequest(tuple(map(Path, names)), GateSettings(**settings), **{"against": "before", **asked})
    with recording() as observer:
        request.validate()
        return measure_against(request, observer)


@pytest.mark.parametrize("number", [0, 3])
def test_where_ncu_fails_on_one_side_nothing_is_left(repository, player, number):
    player.answers[number] = CounterPermissionError()
    with pytest.raises(CounterPermissionError):
        measure()
    assert not list(Path("runs").glob("*"))
    assert untouched(repository)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupt_leaves_neither_runs_nor_worktree(repository, player, number, code):
    player.answers[2] = lambda: os.kill(os.getpid(), number)
    handlers = [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(typer.Exit) as ended:
        measure()
    assert ended.value.exit_code == code
    assert [signal.getsignal(item) for item in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
    assert not list(Path("runs").glob("*"))
    assert untouched(repository)


def test_a_tree_that_is_edited_meanwhile_is_not_judged_as_one(repository, player):
    player.build = {"cubin_sha256": "one"}
    player.answers[2] = lambda: setattr(player, "build", {"cubin_sha256": "other"})
    player.answers[3] = lambda: setattr(player, "build", {"cubin_sha256": "one"})
    errors = measure(rounds=2).errors
    assert errors == [("the working tree", "it changed while it was measured: its runs hold several builds")]


def test_a_program_is_built_and_run_in_both_trees(capsys, repository, player, monkeypatch):
    player.facts = {}
    monkeypatch.setattr(Repeats, "code", "the hash of both")
    (repository / "gemm").write_text("#!/bin/sh\n")
    (repository / "gemm").chmod(0o755)
    commit(repository)
    git(repository, "tag", "programmed")
    monkeypatch.setenv("PYTHONPATH", f"{repository / 'mine'}:/elsewhere")
    where = ("--against", "programmed", "--setting", "rounds=1", "--no-history", "--setting", "build=touch built")
    code, out, err = run(capsys, *where, "--kernel", "gemm", "--", "./gemm", "-p", "x")
    assert code == 0, err
    assert "building the working tree" in err and (repository / "built").exists()
    assert "the machine code is the same" in out
    old, new = player.requests
    assert old.program == new.program == ["./gemm", "-p", "x"]
    assert old.filters.kernel == "gemm"
    assert new.place.folder == repository and old.place.folder.is_relative_to(repository.parent / "tmp")
    assert old.place.env["PYTHONPATH"] == f"{old.place.folder / 'mine'}:/elsewhere"


@pytest.mark.parametrize(
    ("names", "asked", "says"),
    [
        (["saxpy"], {"against": "nonsense"}, "no such revision"),
        (["saxpy"], {"catalog": None}, "no checkout of ncubble"),
        (["saxpy"], {"catalog": Path("later")}, "later is not in before"),
        (["saxpy"], {"catalog": Path("none")}, "none: no such folder"),
        (["saxpy"], {"catalog": Path("..")}, "not in a git checkout"),
        (["saxpy"], {"of_kernel": ("threads=3",)}, "threads=3"),
        ([], {"catalog": None, "program": ["./none"]}, "has no program './none'"),
        ([], {"catalog": None, "program": ["{root}/gemm"]}, "is in the working tree"),
        ([], {"catalog": None, "program": ["true"], "build": "nowhere"}, "cannot be started"),
        ([], {"catalog": None, "program": ["true"], "build": "sh -c 'echo no; exit 4'"}, "exit code 4 in before"),
    ],
)
def test_a_wrong_request_is_named_and_leaves_nothing(repository, player, names, asked, says):
    (repository / "later").mkdir()
    if "program" in asked:
        asked = {**asked, "program": [word.format(root=repository) for word in asked["program"]]}
    with pytest.raises(NcubbleError) as refused:
        measure(names, **asked)
    assert says in refused.value.message and refused.value.remedy
    assert refused.value.exit_code == (3 if "exit code" in says else 2)
    assert player.requests == [] and untouched(repository) and not Path("runs").exists()


def test_sides_take_turns_that_cancel_a_drift():
    order = "".join(f"{side}{number}" for number, side in revisions.in_turns("AB", 4))
    assert order == "A1B1B2A2A3B3B4A4"


def test_only_words_that_name_the_tree_are_refused():
    revisions.refuse_fixed_paths(Path("/w"), ["/other/w/x", "/w2", "w", "--x=/ww"], "--")
    for word in ("/w", "/w/x", "--config=/w/x", "A=/w:/y"):
        with pytest.raises(UsageError, match="is in the working tree"):
            revisions.refuse_fixed_paths(Path("/w"), [word], "--")
