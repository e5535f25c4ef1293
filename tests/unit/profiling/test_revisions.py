"""Another revision is checked out beside the user's tree, which stays as it is, and is gone
afterwards."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import revisions as module
from ncubble.profiling.revisions import checkout_of, worktree


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder, message="change"):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two commits; ``kernel.cu`` says which. Temporary files have a folder of
    their own."""
    root, temporary = tmp_path / "repo", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(temporary))
    for name, value in (("NAME", "A"), ("EMAIL", "a@b.c")):
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "kernel.cu").write_text("old")
    commit(root)
    git(root, "tag", "before")
    (root / "kernel.cu").write_text("new")
    (root / "more").mkdir()
    (root / "more" / "x.cu").write_text("x")
    commit(root)
    return root


def state(root):
    """All that must not change: files, index, refs, stash, worktrees."""
    index = (root / ".git" / "index").read_bytes()
    texts = [git(root, "status", "--porcelain"), git(root, "show-ref"), git(root, "worktree", "list")]
    return index, texts, sorted(str(path) for path in root.rglob("*") if ".git" not in path.parts)


def test_a_revision_is_there_for_the_time_of_the_block_and_the_users_tree_is_not_touched(repository, tmp_path):
    (repository / "kernel.cu").write_text("edited")
    (repository / "new.cu").write_text("untracked")
    checkout = checkout_of(repository / "more")
    assert (checkout.changed, checkout.untracked) == (("kernel.cu",), ("new.cu",))
    sha, before = checkout.resolve("before"), state(repository)
    with worktree(checkout, sha) as tree:
        assert (tree / "kernel.cu").read_text() == "old"
        assert not (tree / "more").exists()
        assert not checkout.holds(sha, Path("more")) and checkout.holds(sha, Path("kernel.cu"))
        (tree / "built.o").write_text("x")
    assert state(repository) == before
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (repository / ".git" / "worktrees").exists()


def test_a_hook_neither_runs_nor_misleads_git(repository, tmp_path, monkeypatch):
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    hook.chmod(0o755)
    before = state(repository)
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git" / "index"))
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    checkout = checkout_of(repository)
    with worktree(checkout, checkout.resolve("before")) as tree:
        assert (tree / "kernel.cu").read_text() == "old"
    monkeypatch.delenv("GIT_INDEX_FILE")
    monkeypatch.delenv("GIT_DIR")
    assert state(repository) == before
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("revision", ["nonsense", "--all", "before..main", ""])
def test_an_unknown_revision_is_refused(repository, revision):
    with pytest.raises(UsageError, match="no such revision") as refused:
        checkout_of(repository).resolve(revision)
    assert "git fetch" in refused.value.remedy


def test_in_a_shallow_clone_the_remedy_is_another(repository, tmp_path):
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", "shallow")
    with pytest.raises(UsageError) as refused:
        checkout_of(tmp_path / "shallow").resolve("HEAD~1")
    assert "--unshallow" in refused.value.remedy and "fetch-depth" in refused.value.remedy


def test_outside_of_a_repository_that_is_said(tmp_path, repository):
    with pytest.raises(UsageError, match="not in a git checkout"):
        checkout_of(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        checkout_of(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"elsewhere: not in .*repo"):
        checkout_of(repository).place_of(Path("/elsewhere"))


def test_without_git_that_is_said(repository, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MeasurementError, match="git was not found"):
        checkout_of(repository)


def test_submodules_are_there_at_their_commits_where_the_user_has_them(repository, tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "tile.cuh").write_text("old")
    commit(library)
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    sha = commit(repository)
    (repository / "lib" / "tile.cuh").write_text("new")
    commit(repository / "lib")
    commit(repository)
    checkout, before = checkout_of(repository), state(repository)
    with worktree(checkout, sha) as tree:
        assert (tree / "lib" / "tile.cuh").read_text() == "old"
    assert state(repository) == before
    assert git(repository / "lib", "worktree", "list").count("\n") == 0


def test_what_a_killed_process_left_is_removed_by_the_next(repository, tmp_path):
    code = (
        "import os, signal\nfrom pathlib import Path\n"
        "from ncubble.profiling.revisions import checkout_of, worktree\n"
        f"checkout = checkout_of(Path({str(repository)!r}))\n"
        "with worktree(checkout, checkout.resolve('before')): os.kill(os.getpid(), signal.SIGKILL)"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    assert subprocess.run([sys.executable, "-c", code], env=env).returncode == -signal.SIGKILL
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    assert git(repository, "worktree", "list").count("\n") == 1
    checkout = checkout_of(repository)
    with worktree(checkout, checkout.sha):
        assert git(repository, "worktree", "list").count("\n") == 1
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (repository / ".git" / "worktrees").exists()


def test_where_git_cannot_remove_it_its_note_goes_all_the_same(repository, tmp_path):
    checkout = checkout_of(repository)
    with worktree(checkout, checkout.sha) as tree:
        admin = Path((tree / ".git").read_text().removeprefix("gitdir: ").strip())
        (admin / "HEAD").write_text("damaged")
    assert not admin.exists()
    assert list((tmp_path / "tmp").iterdir()) == []
