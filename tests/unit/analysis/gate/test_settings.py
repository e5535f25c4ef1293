"""The gate's settings: where they are found, what they say, and the message of every mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncubble.analysis.gate.rules import GateRules, Override, parse_all
from ncubble.analysis.gate.settings import GateSettings, chosen, load
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
    assert load(top) == GateSettings(path, limits, top / "perf/baselines", top / "perf/checks")


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
    assert load(top) == GateSettings()
    (top / ".git").rmdir()
    assert load(top).keep_history is False


@pytest.mark.parametrize("text", ["", "[tool.ruff]\nx = 1", "[tool.ncubble]"])
def test_without_a_table_nothing_is_set(top: Path, text: str) -> None:
    write(top, text)
    assert load(top) == GateSettings()


def test_history_false_keeps_none(top: Path) -> None:
    write(top, f"{GATE}history = false")
    assert (load(top).history, load(top).keep_history) == (None, False)


def test_without_a_repository_a_relative_path_stays_in_the_folder_of_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a", f'{GATE}baselines = "../b"')
    with pytest.raises(UsageError, match="leads outside of"):
        load(tmp_path / "a")


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        (f"{GATE}rule = []", "unknown key 'rule'; nearest: rules", "keys: rules, baselines, history, catalog"),
        ("[tool.ncubble.gates]\nrules = []", "[tool.ncubble]: unknown key 'gates'; nearest: gate", "keys: gate"),
        ("[tool.ncubble]\ngate = 3", "tool.ncubble.gate = 3 is not a table", "write [tool.ncubble.gate]"),
        ("tool = 3", "tool = 3 is not a table", "write [tool.ncubble.gate]"),
        (f'{GATE}rules = "cycles 2%"', "rules = 'cycles 2%' is not an array of rules", "rules = ["),
        (f"{GATE}rules = [2]", "rules = [2] is not an array of rules in quotes", "rules = ["),
        (f'{GATE}rules = ["cycels 2%"]', "'cycels'; nearest: cycles", "metrics: "),
        (f'{GATE}rules = ["cycles >= 2"]', "limit 'cycles >= 2': less is better for cycles", "'cycles 2%'"),
        (f"{GATE}history = true", "history = true does not name a folder", "history may be false"),
        (f"{GATE}history = 3", "history = 3 is not plain text", 'history = "perf/history"'),
        (f"{GATE}baselines = ['a']", "baselines = ['a'] is not plain text", 'baselines = "perf/baselines"'),
        (f'{GATE}baselines = " "', "baselines = ' ' is not plain text, or empty", "baselines"),
        (f'{GATE}baselines = "a\\u0000b"', "not plain text", "baselines"),
        (f'{GATE}baselines = "~/b"', "~ is not expanded here", "the full path"),
        (f'{GATE}history = "perf/../../b"', "history = 'perf/../../b' leads outside of", "an absolute path"),
        (f"{GATE}kernels = 3", "kernels = 3 is not an array of tables", "[[tool.ncubble.gate.kernels]]"),
        ("[tool.ncubble.gate.kernels]\nmatch = 'x'", "is not an array of tables", "[[tool.ncubble.gate.kernels]]"),
        (f"{KERNEL}rules = ['cycles off']", "number 1: match is missing", "write match = "),
        (
            f"{KERNEL}match = ''\nrules = ['cycles off']",
            "number 1: match = '' is not plain text, or empty",
            "write match = ",
        ),
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


MORE = """same_gpu = true
by_nvtx = false
rounds = 3
sets = ["tensor", "dram"]
timeout = 900
build = "make -j8"
"""


def test_a_project_says_how_it_measures_and_what_it_accepts(top: Path) -> None:
    write(top, GATE + MORE)
    found = load(top)
    assert (found.same_gpu, found.by_nvtx, found.allow_suspicious) == (True, False, False)
    assert (found.rounds, found.repeats, found.sets, found.timeout) == (3, 5, ("tensor", "dram"), 900.0)
    assert found.build == "make -j8"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("same_gpu = 1", "field 'same_gpu' is 1: expected `bool`"),
        ("repeats = 0", "field 'repeats' is 0"),
        ("min_repeats = 1", "field 'min_repeats' is 1"),
        ("timeout = 0", "field 'timeout' is 0"),
        ("sets = [3]", "field 'sets[0]' is 3"),
        ("same_gpus = true", "unknown key 'same_gpus'; nearest: same_gpu"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(top: Path, text: str, says: str) -> None:
    path = write(top, GATE + text)
    with pytest.raises(UsageError) as raised:
        load(top)
    assert raised.value.message.startswith(f"{path}: [tool.ncubble.gate]: ") and says in raised.value.message


def test_a_setting_of_one_call_comes_last_and_the_project_can_be_ignored(top: Path) -> None:
    write(top, f'{GATE}{MORE}baselines = "kept"\nrules = ["cycles 2%"]')
    found = chosen(top, ["rounds=5", "build=make -j4", "sets=source, tensor", "history=perf", "nvtx=step/"])
    assert (found.rounds, found.build, found.sets, found.nvtx) == (5, "make -j4", ("source", "tensor"), "step/")
    assert (found.history, found.baselines) == (top / "perf", top / "kept") and found.rules.default
    assert chosen(top, config=False) == GateSettings()
    assert chosen(top, ["same_gpu=true", "catalog=mine"], config=False) == GateSettings(
        same_gpu=True, catalog=top / "mine"
    )
    assert chosen(top, ["history=false"]).keep_history is False


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rounds", "--setting rounds: not KEY=VALUE"),
        ("rounds=many", "--setting: field 'rounds' is 'many': expected `int"),
        ("round=3", "--setting: unknown key 'round'; nearest: rounds"),
        ("rules=cycles 2%", "--setting rules=cycles 2%: rules have an option of their own"),
    ],
)
def test_a_wrong_setting_of_a_call_is_refused(top: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        chosen(top, [text])
    assert says in raised.value.message and raised.value.remedy
