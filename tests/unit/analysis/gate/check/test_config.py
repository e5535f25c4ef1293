"""The gate's settings: where they are found, what they say, and the message of every mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncubble.analysis.gate.check.config import GateConfig, load
from ncubble.analysis.gate.check.rules import GateRules, Override, parse_all
from ncubble.errors import ReportError, UsageError

GATE = "[tool.ncubble.gate]\n"
KERNEL = "[[tool.ncubble.gate.kernels]]\n"
WHOLE = f"""
[project]
name = "mine"

{GATE}
rules = ["tensor_elapsed_pct 1%", "cycles 2%"]
baselines = "perf/baselines"
history = "perf/checks"

{KERNEL}
match = "tensor_core_gemm stages=3"
rules = ["tensor_elapsed_pct >= 44", "data_wait +2"]
"""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    return tmp_path / "repo"


def write(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_table_says_limits_overrides_and_places(top: Path) -> None:
    path = write(top, WHOLE)
    overrides = (Override("tensor_core_gemm stages=3", parse_all(["tensor_elapsed_pct >= 44", "data_wait +2"])),)
    limits = GateRules(parse_all(["tensor_elapsed_pct 1%", "cycles 2%"]), overrides)
    assert load(top) == GateConfig(path, limits, top / "perf/baselines", top / "perf/checks")


def test_ncubble_toml_says_the_same_without_tool(top: Path) -> None:
    write(top, WHOLE.replace("tool.ncubble.", "").replace('[project]\nname = "mine"', ""), "ncubble.toml")
    found = load(top)
    assert found.path == top / "ncubble.toml" and found.baselines == top / "perf/baselines"
    assert len(found.rules.default) == 2 and len(found.rules.overrides) == 1


def test_the_nearest_table_counts_and_paths_are_from_its_folder(top: Path) -> None:
    write(top, f'{GATE}baselines = "outer"')
    write(top / "kernels", f'{GATE}baselines = "../shared"')
    write(top / "kernels/src", "[tool.ruff]\nline-length = 100")
    (top / "kernels/src/deep").mkdir()
    assert load(top / "kernels/src/deep").baselines == top / "shared"
    assert load(top).baselines == top / "outer"


def test_nothing_above_the_top_of_the_repository_counts(top: Path) -> None:
    write(top.parent, f"{GATE}history = false")
    assert load(top) == GateConfig()
    (top / ".git").rmdir()
    assert load(top).keep_history is False


@pytest.mark.parametrize("text", ["", "[tool.ruff]\nx = 1", "[tool.ncubble]"])
def test_without_a_table_nothing_is_set(top: Path, text: str) -> None:
    write(top, text)
    assert load(top) == GateConfig()


def test_an_empty_table_sets_nothing_and_is_known(top: Path) -> None:
    assert load(top) == GateConfig() != GateConfig(write(top, GATE)) == load(top)


def test_history_false_keeps_none(top: Path) -> None:
    write(top, f"{GATE}history = false")
    assert (load(top).history, load(top).keep_history) == (None, False)


def test_an_absolute_path_may_leave_the_repository(top: Path) -> None:
    write(top, f'{GATE}baselines = "/srv/baselines"\nhistory = "{top}/../checks"')
    assert (load(top).baselines, load(top).history) == (Path("/srv/baselines"), top.parent / "checks")


def test_without_a_repository_a_relative_path_stays_in_the_folder_of_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a", f'{GATE}baselines = "../b"')
    with pytest.raises(UsageError, match="leads outside of"):
        load(tmp_path / "a")


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        (f"{GATE}limit = []", "unknown key 'limit'; nearest: rules", "keys: baselines, history, kernels, rules"),
        ("[tool.ncubble.gates]\nrules = []", "[tool.ncubble]: unknown key 'gates'; nearest: gate", "keys: gate"),
        ("[tool.ncubble]\ngate = 3", "tool.ncubble.gate = 3 is not a table", "write [tool.ncubble.gate]"),
        ("tool = 3", "tool = 3 is not a table", "write [tool.ncubble.gate]"),
        (f'{GATE}rules = "cycles 2%"', "rules = 'cycles 2%' is not an array of rules", "rules = ["),
        (f"{GATE}rules = [2]", "rules: 2 is not a rule in quotes", "rules = ["),
        (f'{GATE}rules = ["cycels 2%"]', "'cycels'; nearest: cycles", "metrics: "),
        (f'{GATE}rules = ["cycles >= 2"]', "limit 'cycles >= 2': less is better for cycles", "'cycles 2%'"),
        (f"{GATE}history = true", "history = true does not name a folder", "or false for no history"),
        (f"{GATE}history = 3", "history = 3 is not text", 'history = "perf/history"'),
        (f"{GATE}baselines = ['a']", "baselines = ['a'] is not text", 'baselines = "perf/baselines"'),
        (f'{GATE}baselines = " "', "baselines = ' ' is empty", "baselines"),
        (f'{GATE}baselines = "a\\u0000b"', "not plain text", "baselines"),
        (f'{GATE}baselines = "~/b"', "~ is not expanded here", "the full path"),
        (f'{GATE}history = "perf/../../b"', "history = 'perf/../../b' leads outside of", "an absolute path"),
        (f"{GATE}kernels = 3", "kernels = 3 is not an array of tables", "[[tool.ncubble.gate.kernels]]"),
        ("[tool.ncubble.gate.kernels]\nmatch = 'x'", "is not an array of tables", "[[tool.ncubble.gate.kernels]]"),
        (f"{KERNEL}rules = ['cycles off']", "number 1: match is missing", "write match = "),
        (f"{KERNEL}match = ''\nrules = ['cycles off']", "number 1: match = '' is empty", "write match = "),
        (f"{KERNEL}match = '('\nrules = ['cycles off']", "number 1: match '(': not a regular", "escape"),
        (f"{KERNEL}match = 'x'", "[[tool.ncubble.gate.kernels]] number 1: no rules", "write rules = ["),
        (f"{KERNEL}match = 'x'\nrules = []", "number 1: no rules", "write rules = ["),
        (f"{KERNEL}matches = 'x'", "number 1: unknown key 'matches'; nearest: match", "keys: match, rules"),
        (
            f"{KERNEL}match = 'x'\nrules = ['cycles off']\n{KERNEL}match = 'y'\nrules = ['data_wait 2%']",
            "[[tool.ncubble.gate.kernels]] number 2: limit 'data_wait 2%'",
            "'data_wait +2'",
        ),
    ],
)
def test_every_mistake_is_named_with_file_value_and_remedy(top: Path, text: str, message: str, remedy: str) -> None:
    path = write(top, text)
    with pytest.raises(UsageError) as raised:
        load(top)
    assert raised.value.message.startswith(f"{path}: ") and message in raised.value.message
    assert remedy in raised.value.remedy and raised.value.remedy.endswith(
        "with --no-config (pytest: --ncubble-no-config)"
    )


def test_an_unknown_key_at_the_top_of_ncubble_toml_is_refused(top: Path) -> None:
    write(top, 'rules = ["cycles 2%"]', "ncubble.toml")
    with pytest.raises(UsageError, match="top level: unknown key 'rules'"):
        load(top)


def test_two_tables_in_one_folder_are_refused(top: Path) -> None:
    write(top, GATE)
    write(top, "", "ncubble.toml")
    assert load(top).path == top / "pyproject.toml"
    write(top, "[gate]", "ncubble.toml")
    with pytest.raises(UsageError, match=r"both pyproject.toml \[tool.ncubble.gate\] and ncubble.toml \[gate\] exist"):
        load(top)


@pytest.mark.parametrize(
    "raw", [f"{GATE}rules = [".encode(), b"\xff\xfe", b"a = " + b"[" * 20_000, b"a = " + b"9" * 5_000, b"\x00"]
)
def test_what_is_no_toml_is_no_usable_file(top: Path, raw: bytes) -> None:
    (top / "pyproject.toml").write_bytes(raw)
    with pytest.raises(ReportError, match=r"pyproject.toml: not valid TOML, perhaps half-written") as raised:
        load(top)
    assert "--no-config" in raised.value.remedy


def test_what_cannot_be_read_is_named(top: Path) -> None:
    (top / "pyproject.toml").symlink_to("nowhere")
    with pytest.raises(ReportError, match="unreadable"):
        load(top)
    (top / "pyproject.toml").unlink()
    (top / "pyproject.toml").mkdir()
    with pytest.raises(ReportError, match="not a file"):
        load(top)
    (top / "pyproject.toml").rmdir()
    os.mkfifo(top / "pipe")
    (top / "pyproject.toml").symlink_to("pipe")
    with pytest.raises(ReportError, match="not a file"):
        load(top)


def test_the_old_name_of_rules_works_with_a_note_and_both_are_refused(
    top: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(top, f'{GATE}limits = ["cycles 2%"]\n{KERNEL}match = "x"\nlimits = ["cycles off"]')
    assert load(top).rules == GateRules(parse_all(["cycles 2%"]), (Override("x", parse_all(["cycles off"])),))
    assert caplog.records[0].message.startswith(f"note: {path}: [tool.ncubble.gate]: limits is")
    write(top, f'{GATE}limits = ["cycles 2%"]\nrules = []')
    with pytest.raises(UsageError, match="both rules and its old name limits are given"):
        load(top)
