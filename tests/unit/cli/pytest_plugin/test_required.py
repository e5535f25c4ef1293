"""A gated test without its plugin or its GPU, in a pytest of its own: never an unnoticed pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.tensor_util(min=50)
def test_gated():
    pass

def test_by_hand(ncubble):
    ncubble.catalog("tensor_core_gemm")

@pytest.mark.skip(reason="later")
def test_other():
    pass
"""
MARKED = TESTS.partition("def test_by_hand")[0]
STRICT = "[pytest]\naddopts = --strict-markers\n"
PLUGINS = "[pytest]\nrequired_plugins = ncubble\n"
ABSENT = {"-p no:ncubble": {}, "": {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}}


@pytest.fixture
def session(tmp_path: Path):
    """Runs pytest in a process of its own on a machine without a GPU."""

    def _run(*arguments: str, tests: str = TESTS, ini: str = "[pytest]\n", **environment: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(tests)
        (tmp_path / "pytest.ini").write_text(ini)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "NCUBBLE_REQUIRE"))}
        done = subprocess.run(
            # Two plugins that have no part in it take half of the time that pytest needs to start.
            [sys.executable, "-m", "pytest", "-pno:cacheprovider", "-pno:dash", "-pno:hypothesispytest", *arguments],
            cwd=tmp_path,
            env={**kept, "CUDA_VISIBLE_DEVICES": "", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return _run


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize(
    ("options", "ini", "code", "says"),
    [
        ("--ncubble-required", "[pytest]\n", 4, "unrecognized arguments: --ncubble-required"),
        ("", PLUGINS, 4, "Missing required plugins: ncubble"),
        ("", STRICT, 2, "'tensor_util' not found in `markers`"),
    ],
)
def test_without_the_plugin_a_guard_ends_the_session(session, absent, options, ini, code, says):
    arguments = [*absent.split(), *options.split()]
    got, text = session(*arguments, tests=MARKED, ini=ini, **ABSENT[absent])
    assert (got, says in text) == (code, True), text


def test_without_the_plugin_and_without_a_guard_pytest_passes(session):
    """Why the guards are in the docs: the plugin cannot help where it is not."""
    code, text = session("-p", "no:ncubble", tests=MARKED)
    assert code == 0 and "PytestUnknownMarkWarning" in text


def test_required_plugins_are_there_where_the_plugin_is_named(session):
    code, text = session("-p", "ncubble", ini=PLUGINS, tests=MARKED, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert code == 0 and "1 skipped (ncubble gate)" in text


def test_skipped_gates_are_named_and_counted_apart_in_the_last_line(session):
    code, text = session("-q")
    assert code == 0
    assert "test_it.py::test_gated: skipped: ncubble measured nothing: no GPU" in text
    assert "test_it.py::test_by_hand: skipped: ncubble measured nothing: no GPU" in text
    assert "2 gated tests were skipped, nothing was measured (--ncubble-required makes that fail)" in text
    last = text.strip().splitlines()[-1]
    assert "1 skipped" in last and "2 skipped (ncubble gate)" in last


def test_required_gates_fail_where_they_would_be_skipped(session):
    code, text = session("--ncubble-required")
    assert code == 1 and "this machine has no GPU" in text
    assert "2 failed, 1 skipped" in text.strip().splitlines()[-1]
