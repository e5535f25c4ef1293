"""``ncubble check`` on a real GPU: measured now, and the working tree against another revision."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.kernels.build import arch_for, build
from ncubble.kernels.run import other_tree
from ncubble.kernels.run.session import KernelRequest
from ncubble.profiling.driver import describe

pytestmark = pytest.mark.gpu

CATALOG = Path(__file__).parents[1] / "data" / "catalog"
MINE = ("--setting", "catalog=mine", "--setting", "rounds=2")
SMALL = ("--setting", "sets=tensor,dram", "--no-history", "--json")


def git(folder, *arguments):
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **names})


def check(folder, *argv):
    code = "import sys; from ncubble.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-P", "-c", code, "check", *argv]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=280)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


@pytest.fixture
def repository(tmp_path):
    """The catalog of the tests, committed as ``before``."""
    root = tmp_path / "repo"
    shutil.copytree(CATALOG, root / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".gitignore").write_text("runs\n__pycache__\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "start")
    git(root, "tag", "before")
    return root


def test_the_same_source_passes_and_the_worktree_is_gone(repository):
    code, answer, err = check(repository, "--against", "before", "saxpy", *MINE, *SMALL)
    assert code != 1, (answer, err)
    assert "any difference is noise" in " ".join(answer["notes"])
    assert not (repository / ".git" / "worktrees").exists()


def test_a_kernel_whose_reads_are_no_longer_coalesced_is_caught(repository):
    source = repository / "mine" / "saxpy.cu"
    text = source.read_text()
    assert "x[i]" in text
    source.write_text(text.replace("x[i]", "x[i * 33u % n]"))
    code, answer, err = check(repository, "--against", "before", "saxpy", *MINE, *SMALL)
    assert code == 1, (answer, err)
    assert "any difference is noise" not in " ".join(answer["notes"])
    assert "mine/saxpy.cu" in " ".join(answer["notes"])


def test_a_program_is_built_and_run_in_both_trees(repository):
    argv = ("--against", "before", "--setting", "rounds=3", "--setting", "build=touch built", "--no-history", "--json")
    program = (sys.executable, "-m", "ncubble.profiling.tiny")
    code, answer, err = check(repository, *argv, "--", *program)
    assert answer is not None, err
    assert code in (0, 3), (answer, err)  # an empty kernel may scatter too much to be judged
    assert len(list((repository / "runs").glob("*/[ab]/[123]/run.json"))) == 6
    assert (repository / "built").exists()


def test_code_does_not_depend_on_where_its_source_lies(tmp_path):
    capability = describe().capability
    arch = arch_for(capability.major, capability.minor)
    shutil.copytree(CATALOG, tmp_path / "there", ignore=shutil.ignore_patterns("__pycache__"))
    one, other = (
        build(KernelRequest("saxpy", catalog=folder).case(), arch) for folder in (CATALOG, tmp_path / "there")
    )
    assert one.sha256 != other.sha256
    assert other_tree.code_hash(one.cubin) == other_tree.code_hash(other.cubin)
