"""``ncubble check --bisect``: over real git histories, with launches whose noise was recorded on an
H200, the planted commit is named; what cannot be judged is skipped; nothing is lost or left."""

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import typer

from ncubble.analysis.gate.bisect.output import sentence
from ncubble.analysis.gate.check.result import CheckOptions
from ncubble.analysis.report import report
from ncubble.cli.commands.check.bisect.bisect import take_bisect
from ncubble.cli.commands.check.bisect.journal import FILE
from ncubble.cli.commands.check.options import Measuring
from ncubble.cli.commands.check.subject import SideLaunch
from ncubble.cli.main import main
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.kernels.run import other_tree
from ncubble.profiling.ncu.failures import CounterPermissionError, LaunchFaultError, NoKernelError
from ncubble.profiling.revisions import worktree
from ncubble.profiling.runs.run import Run
from tests.helpers.gate_frames import gemm
from tests.helpers.played_runs import SPEED, RecordedPlayer, recorded_request

CATALOG = Path(__file__).parents[4] / "data" / "catalog"
RECORDINGS = Path(__file__).parents[5] / "recordings" / "h200-repeats" / "tensor_core_gemm"
OPEN_REPORTS = report.open_reports
MINE = Path("mine")


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


class History:
    """A repository with the catalog ``mine``, whose kernel is as fast as the file ``speed``
    says."""

    def __init__(self, root):
        self.root = root
        self.number = 0

    def commit(self, speed=None, subject="", **files):
        self.number += 1
        if speed is not None:
            (self.root / MINE / SPEED).write_text(str(speed))
        for name, text in files.items():
            (self.root / MINE / name).write_text(text)
        (self.root / "notes").write_text(str(self.number))
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", subject or f"Change {self.number}")
        return git(self.root, "rev-parse", "HEAD")

    def row(self, speeds):
        return [self.commit(speed) for speed in speeds]


@pytest.fixture
def history(tmp_path, monkeypatch):
    root, temporary = tmp_path / "repo", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(worktree.tempfile, "gettempdir", lambda: str(temporary))
    for name, value in (("NAME", "Ada [bold]"), ("EMAIL", "a@b.c")):
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    shutil.copytree(CATALOG, root / MINE, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".gitignore").write_text("runs\n__pycache__\n")
    git(root, "init", "-q", "-b", "main")
    made = History(root)
    made.commit(1.0)
    git(root, "tag", "good")
    monkeypatch.chdir(root)
    return made


@pytest.fixture
def player(monkeypatch):
    """Describes kernels in this process, and plays their launches."""

    def describe(measuring, side, subject):
        if (side.folder / "broken").exists():
            raise MeasurementError(f"{side.what}: nvcc says no", "fix it")
        facts = other_tree.describe([subject.name, "--catalog", str(side.folder)], other_tree.NOT_BUILT)
        code = side.folder / "code"
        return SideLaunch(
            facts["label"], facts["function"], facts["launch"], code.read_text() if code.exists() else None
        )

    monkeypatch.setattr("ncubble.cli.commands.check.bisect.measuring.describe", describe)
    return RecordedPlayer(gemm()).install(monkeypatch)


def search(span="good..HEAD", names=("saxpy",), options=None, **more):
    measuring = Measuring(**{"bisect": span, "catalog": MINE, "rounds": 2, **more})
    return take_bisect(measuring, [Path(name) for name in names], options or CheckOptions(), nvtx=True)


def untouched(root):
    left = [path for path in (root.parent / "tmp").iterdir() if path.suffix != ".lock"]
    return not (root / ".git" / "worktrees").exists() and not left


@pytest.mark.parametrize(
    ("series", "loss"), [("gemm_mma_swizzled", 0.01), ("gemm_ws", 0.02), ("tensor_core_gemm-stages3", 0.05)]
)
def test_a_planted_commit_is_named_under_recorded_noise(history, player, series, loss):
    for seed in range(2):
        player.__dict__.update(RecordedPlayer({}, series=series, seed=seed).__dict__ | {"facts": gemm()})
        rng = random.Random(f"{series}/{seed}")  # noqa: S311
        git(history.root, "checkout", "-q", "-B", f"try{seed}", "good")
        culprit = rng.randrange(12)
        shas = history.row([1.0 - loss if place >= culprit else 1.0 for place in range(12)])
        result = search(rounds=3, out=Path(f"runs/{series}-{seed}"))
        assert (result.verdict, result.exit_code) == ("named", 1)
        assert result.culprit.name == shas[culprit]
        assert result.confirmed and result.step.loss_pct == pytest.approx(100 * loss, abs=0.35)
        assert result.gate.verdict == "regressed"
    assert untouched(history.root)


def test_the_working_tree_takes_no_part_and_is_left_alone(history, player):
    history.row([1.0, 1.0, 0.9, 0.9])
    (history.root / MINE / SPEED).write_text("0.1")
    (history.root / "stray").write_text("x")
    git(history.root, "stash", "list")
    before = (
        git(history.root, "status", "--porcelain"),
        git(history.root, "for-each-ref"),
        (history.root / ".git/index").read_bytes(),
    )
    result = search()
    after = (
        git(history.root, "status", "--porcelain"),
        git(history.root, "for-each-ref"),
        (history.root / ".git/index").read_bytes(),
    )
    assert before == after and untouched(history.root)
    assert result.culprit.subject == "Change 4"
    assert "uncommitted changes of the working tree take no part" in result.notes


def test_what_does_not_build_or_lacks_the_kernel_is_skipped_and_the_set_is_named(history, player):
    history.row([1.0, 1.0])
    broken = history.commit(0.9, broken="x")
    (history.root / MINE / "broken").unlink()
    source = (history.root / MINE / "saxpy.py").read_text()
    (history.root / MINE / "saxpy.py").write_text("")
    lacking = history.commit()
    last = history.commit(**{"saxpy.py": source})
    history.row([0.9, 0.9])
    result = search()
    assert (result.verdict, result.exit_code, result.confirmed) == ("several", 1, None)
    assert [candidate.name for candidate in result.suspects] == [broken, lacking, last]
    reasons = {item.candidate.name: item.judgement for item in result.judged}
    assert (reasons[broken].verdict, reasons[lacking].verdict) == ("skipped", "skipped")
    assert "nvcc says no" in reasons[broken].reason and "there is no kernel" in reasons[lacking].reason
    assert sentence(result).startswith("one of 3 that could not be distinguished")


def test_a_launch_that_ncu_cannot_profile_is_skipped_but_a_machine_that_cannot_ends_the_search(history, player):
    shas = history.row([1.0, 1.0, 0.9, 0.9])
    player.answers[5] = NoKernelError("gemm", [])
    result = search()
    assert result.judged[1].judgement.verdict == "skipped"
    assert shas[2] in [candidate.name for candidate in result.suspects]
    shutil.rmtree("runs")
    player.answers[len(player.requests) + 6] = CounterPermissionError()
    with pytest.raises(CounterPermissionError):
        search()
    kept = json.loads(next(Path("runs").glob(f"*/{FILE}")).read_text())
    assert kept["schema"] == 1 and untouched(history.root)
    assert search().culprit.name == shas[2]


def test_what_was_skipped_is_tried_again_on_request_only(history, player, capsys):
    shas = history.row([1.0, 1.0, 0.9, 0.9])
    player.answers[5] = NoKernelError("gemm", [])
    assert len(search().suspects) > 1
    played = len(player.requests)
    assert len(search().suspects) > 1 and len(player.requests) == played
    assert "1 of them skipped (--retry-skipped tries them again)" in capsys.readouterr().err
    again = search(retry_skipped=True)
    assert (again.verdict, again.culprit.name) == ("named", shas[2])
    assert "skipped (now tried again)" in capsys.readouterr().err
    assert search().culprit.name == shas[2], "the new judgement is kept"


def test_without_ncu_nothing_is_built(history, player, monkeypatch):
    history.row([1.0, 0.9])
    monkeypatch.undo()
    monkeypatch.chdir(history.root)
    monkeypatch.setenv("NCUBBLE_NCU", "/no/such/ncu")
    monkeypatch.setattr("ncubble.cli.commands.check.bisect.measuring.describe", lambda *_: pytest.fail("was built"))
    with pytest.raises(NcubbleError, match="ncu"):
        search()
    assert not Path("runs").exists()


def test_a_failure_of_good_or_of_the_folder_for_worktrees_is_no_candidates_fault(history, player, monkeypatch):
    shas = history.row([1.0, 1.0, 0.9, 0.9])
    player.answers[4] = LaunchFaultError("gemm", "an illegal memory access")
    with pytest.raises(MeasurementError, match="could not be measured"):
        search()
    made = worktree._add

    def full(repository, sha, *more):
        if sha == shas[1]:
            raise worktree.CheckoutError("no space left", "set TMPDIR")
        made(repository, sha, *more)

    with monkeypatch.context() as patch, pytest.raises(worktree.CheckoutError):
        patch.setattr(worktree, "_add", full)
        search()
    assert search().culprit.name == shas[2], "what failed was not kept as a judgement"


def test_a_parent_beyond_the_range_that_does_not_build_costs_no_answer(history, player):
    history.commit(1.0, broken="x")
    git(history.root, "branch", "side")
    (history.root / MINE / "broken").unlink()
    history.commit()
    git(history.root, "tag", "later")
    git(history.root, "checkout", "-q", "side")
    (history.root / MINE / "broken").unlink()
    slow = history.commit(0.9)
    git(history.root, "merge", "-q", "-s", "ours", "-m", "Merge main", "main")
    result = search("later..")
    assert (result.verdict, result.confirmed) == ("named", None)
    assert result.culprit.name == slow
    assert "was not measured" in result.notes[-1] and "nvcc says no" in result.notes[-1]


def test_a_file_that_was_renamed_is_no_hindrance(history, player):
    history.row([1.0, 1.0])
    git(history.root, "mv", "mine/saxpy.py", "mine/renamed.py")
    culprit = history.commit(0.95)
    history.row([0.95, 0.95])
    assert search().culprit.name == culprit


def side_branch(history, speed):
    """``main`` and ``side`` part, side changes to ``speed`` in its second commit, and is merged."""
    history.row([1.0])
    git(history.root, "checkout", "-q", "-b", "side")
    history.row([1.0])
    slow = history.commit(speed)
    git(history.root, "checkout", "-q", "main")
    (history.root / "other").write_text("x")
    git(history.root, "add", "-A")
    git(history.root, "commit", "-q", "-m", "Meanwhile")
    git(history.root, "merge", "-q", "--no-ff", "-X", "theirs", "-m", "Merge side", "side")
    merge = git(history.root, "rev-parse", "HEAD")
    history.row([speed])
    return slow, merge


def test_a_commit_of_a_merged_branch_is_named_or_with_first_parent_its_merge(history, player):
    slow, merge = side_branch(history, 0.95)
    assert search().culprit.name == slow
    result = search(first_parent=True, out=Path("runs/first"))
    assert result.culprit.name == merge and result.confirmed
    assert "first parents only" in result.notes[0]


def test_an_end_that_is_not_worse_is_refused_with_the_numbers(capsys, history, player):
    history.row([1.0, 1.0])
    with pytest.raises(SystemExit) as ended:
        main(["check", "--bisect", "good..HEAD", "saxpy", "--catalog", "mine", "--rounds", "2"])
    out = " ".join(capsys.readouterr().out.split())
    assert (ended.value.code or 0) == 0
    assert "is not worse than" in out and "cycles" in out
    assert len(player.requests) == 4


def test_of_a_large_and_a_small_loss_the_large_one_is_named_with_what_it_lost_itself(history, player):
    shas = history.row([0.99, 0.99, 0.9, 0.9])
    result = search()
    assert result.culprit.name == shas[2]
    assert result.confirmed and result.step.loss_pct < result.aim.loss_pct - 0.5


def test_small_steps_are_named_as_such(history, player):
    history.row([0.992, 0.984, 0.976, 0.968, 0.96])
    result = search()
    assert result.confirmed is False
    assert "but its own step does not explain it" in sentence(result)
    assert (result.gate.verdict, result.exit_code) == ("regressed", 1)


def test_a_loss_near_the_half_gets_more_repeats_and_is_then_left_open(history, player):
    shas = history.row([0.98, 0.96])
    result = search(most_rounds=4)
    judged = {item.candidate.name: item for item in result.judged}
    assert (judged[shas[0]].judgement.verdict, judged[shas[0]].rounds) == ("unsure", 4)
    assert [candidate.name for candidate in result.suspects] == shas
    requests = len(player.requests)
    search(most_rounds=4)
    assert len(player.requests) == requests, "what was judged is not measured again"
    search(most_rounds=6)
    assert len(player.requests) == requests + 4, "more repeats are added to those that lie there"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_loses_nothing_that_was_judged(history, player, number, code):
    shas = history.row([1.0] * 5 + [0.95] * 3)
    player.answers[10] = lambda: os.kill(os.getpid(), number)
    with pytest.raises(typer.Exit) as ended:
        search()
    assert ended.value.exit_code == code and untouched(history.root)
    (folder,) = Path("runs").iterdir()
    judged = json.loads((folder / FILE).read_text())["judged"]
    assert len(judged) == 1
    before = len(player.requests)
    assert search().culprit.name == shas[5]
    again = {request.out.parts[2] for request in player.requests[before:]}
    assert judged[0]["name"][:12] not in again and shas[-1][:12] not in again


def test_a_folder_of_another_search_or_a_damaged_one_is_refused(history, player):
    history.row([1.0, 0.9])
    search(out=Path("kept"))
    with pytest.raises(UsageError, match="holds another search"):
        search(out=Path("kept"), sets=["tensor"])
    Path("foreign").mkdir()
    Path("foreign/file").write_text("x")
    with pytest.raises(UsageError, match="holds no search"):
        search(out=Path("foreign"))
    whole = json.loads((Path("kept") / FILE).read_text())
    for wrong in ("{", "[]", '{"schema": 1}', json.dumps({**whole, "judged": [{"name": "x", "verdict": "fine"}]})):
        (Path("kept") / FILE).write_text(wrong)
        with pytest.raises(ReportError, match=FILE.replace(".", r"\.")):
            search(out=Path("kept"))


def test_with_skip_same_commits_are_judged_by_their_machine_code(history, player):
    history.commit(1.0, code="x")
    git(history.root, "tag", "coded")
    history.row([1.0, 1.0, 1.0])
    culprit = history.commit(0.95, code="y")
    history.row([0.95, 0.95])
    result = search("coded..HEAD", skip_same=True)
    assert result.culprit.name == culprit
    assert len(player.requests) == 8, "the proof and the step"
    assert all("--skip-same" in item.judgement.reason for item in result.judged[1:])


def test_all_outputs_name_the_commit(capsys, monkeypatch, history, player):
    culprit = history.commit(0.9, "Use <b>less</b> `stages` \x1b[2J ::error::[red]")
    history.row([0.9])
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(history.root / "summary"))
    outputs = ("--json", "--markdown", "b.md", "--sarif", "b.sarif", "--junit", "b.xml", "--github")
    argv = ["check", "--bisect", "good..", "saxpy", "--catalog", "mine", "--rounds", "2"]
    with pytest.raises(SystemExit) as ended:
        main([*argv, *outputs])
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert (ended.value.code, answer["exit_code"], answer["verdict"]) == (1, 1, "regressed")
    found = answer["bisect"]
    assert (found["suspects"][0]["name"], found["confirmed"]) == (culprit, True)
    assert found["suspects"][0]["author"] == "Ada [bold]" and len(found["suspects"][0]["date"]) == 25
    assert found["step"]["loss_pct"] == pytest.approx(11.1, abs=1.5)
    assert "\x1b" not in err and "2 commits after" in err and "comparisons of 2 + 2\nprocesses" in err
    comment, sarif = Path("b.md").read_text(), json.loads(Path("b.sarif").read_text())
    assert comment.startswith("<!-- ncubble check -->") and "<b>" not in comment and culprit[:12] in comment
    assert culprit[:12] in sarif["runs"][0]["results"][0]["message"]["text"]
    assert culprit[:12] in Path("b.xml").read_text() and "::error title=" in err
    assert not Path("checks").exists()
    with pytest.raises(SystemExit):
        main(argv)
    shown = capsys.readouterr().out
    assert "less" in shown and culprit[:12] in shown and "[red]" in shown


def test_a_program_is_built_in_each_commit(history, player):
    player.facts = {}
    (history.root / "gemm").write_text("#!/bin/sh\n")
    (history.root / "gemm").chmod(0o755)
    (history.root / SPEED).write_text("1")
    history.commit()
    git(history.root, "tag", "programmed")
    shas = []
    for speed in ("1", "0.9", "0.9"):
        (history.root / SPEED).write_text(speed)
        shas.append(history.commit())
    result = search(
        "programmed..", (), CheckOptions(kernel="gemm"), catalog=None, program=["./gemm"], build="touch built"
    )
    assert result.culprit.name == shas[1]
    assert not (history.root / "built").exists()


@pytest.mark.parametrize(
    ("span", "names", "asked", "says"),
    [
        ("good", ("saxpy",), {}, "no range"),
        ("good...HEAD", ("saxpy",), {}, "no range"),
        ("good..none", ("saxpy",), {}, "--bisect none: no such revision"),
        ("good..good", ("saxpy",), {}, "both ends are commit"),
        ("HEAD..good", ("saxpy",), {}, "is not an ancestor of"),
        ("good..HEAD", ("a", "b"), {}, "searches for one kernel"),
        ("good..HEAD", ("nowhere",), {}, "there is no kernel"),
        ("good..HEAD", ("saxpy",), {"catalog": None}, "no checkout of ncubble"),
        ("good..HEAD", ("saxpy",), {"catalog": Path("later")}, "later is not in good"),
        ("good..HEAD", ("saxpy",), {"against": "good"}, "--against and --bisect"),
        ("good..HEAD", ("saxpy",), {"nvcc": [Path("nvcc")]}, "--nvcc is for a range of compilers"),
        ("good..HEAD", (), {"catalog": None, "program": ["./none"]}, "has no program './none'"),
    ],
)
def test_a_wrong_request_is_named_and_leaves_nothing(history, player, span, names, asked, says):
    history.row([1.0])
    (history.root / "later").mkdir()
    with pytest.raises(NcubbleError) as refused:
        search(span, names, **asked)
    assert says in refused.value.message and refused.value.remedy
    assert (refused.value.exit_code, player.requests) == (2, [])
    assert untouched(history.root) and not Path("runs").exists()


def test_real_reports_are_read_and_judged(history, player, monkeypatch):
    """Reports of an H200: of a GEMM that copies 16 bytes at a time, and of one that copies 4."""
    monkeypatch.setattr("ncubble.analysis.report.report.open_reports", OPEN_REPORTS)

    def recorded(session, settings):
        request = recorded_request(session, settings)
        speed = float((request.place.folder / SPEED).read_text())
        source = RECORDINGS / ("stages3-vec4" if speed < 1 else "stages3")
        shutil.copytree(source, request.out)
        manifest = json.loads((request.out / "run.json").read_text())
        manifest["kernel"]["parameters"]["vec"] = 16
        (request.out / "run.json").write_text(json.dumps(manifest))
        return Run.load(request.out)

    monkeypatch.setattr("ncubble.profiling.recorders.ncu.profile", recorded)
    shas = history.row([0.8, 0.8])
    result = search(rounds=1)
    assert result.culprit.name == shas[0] and result.confirmed
    assert result.step.loss_pct == pytest.approx(22.7, abs=4)
    assert result.gate.kernels[0].metrics[0].now[0] < 37
