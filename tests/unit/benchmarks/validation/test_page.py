"""The page of the validations: its blocks and JSON, and that the committed page is what the
recordings give."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from benchmarks.validation import page
from benchmarks.validation.__main__ import VALIDATIONS, main
from ncubble.errors import UsageError
from ncubble.recordings import VALIDATION
from tests.helpers.markdown import formatted
from tests.helpers.validation_folders import account_folder

RECORDED = [name for name in VALIDATIONS if (VALIDATION / name).is_dir()]


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "docs" / "validation"


def command(*arguments: str) -> None:
    assert main(["account", "--folder", *arguments]) == 0


def test_the_command_writes_tables_and_json_and_leaves_the_words(tmp_path: Path, folder: Path) -> None:
    recordings = account_folder(tmp_path)
    shutil.copy(folder / page.PAGE, tmp_path)
    command(str(recordings), "--write", str(tmp_path))
    text = (tmp_path / page.PAGE).read_text()
    assert "| fitted | k/stages3, " in text
    assert re.search(r"Measured on GPU on [0-9-]{10}, by commit [0-9a-f]{12}\.\n\n- k/lost: not scored", text)
    assert page.fill(text, blank(text)) == page.fill((folder / page.PAGE).read_text(), blank(text))
    written = {path.name: path.read_bytes() for path in tmp_path.glob("account*")}
    assert set(written) == {"account.json"}
    command(str(recordings), "--write", str(tmp_path), "--json")
    assert {path.name: path.read_bytes() for path in tmp_path.glob("account*")} == written, "the same data, other files"


def blank(text: str) -> dict[str, str]:
    """Every block of a page, emptied."""
    return {line.split()[2]: "" for line in text.splitlines() if line.startswith("<!-- generated: ")}


def test_without_a_page_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recordings = account_folder(tmp_path)
    assert main(["account", "--folder", str(recordings), "--write", str(tmp_path)]) == 2
    assert "no such page" in capsys.readouterr().err
    assert not list(tmp_path.glob("account*"))


def test_a_figure_that_was_changed_by_hand_is_put_right() -> None:
    text = "a\n<!-- generated: x -->\n| 99.9 |\n<!-- end: x -->\nb\n"
    assert page.fill(text, {"x": "| 34.7 |"}) == "a\n<!-- generated: x -->\n| 34.7 |\n<!-- end: x -->\nb\n"


@pytest.mark.parametrize(
    "text",
    [
        "no markers",
        "<!-- generated: x -->\nnever ends\n",
        "<!-- generated: x -->\n<!-- end: x -->\n<!-- generated: x -->\n<!-- end: x -->\n",
    ],
)
def test_a_block_without_its_one_place_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="'x'"):
        page.fill(text, {"x": "1"})


def test_results_are_rounded_without_negative_zeros() -> None:
    assert page.rounded({"a": [1.23456, -0.0001], "b": None, "c": 7}) == {"a": [1.235, 0.0], "b": None, "c": 7}
    assert "-" not in page.as_json({"a": -0.0001})


def test_measurements_of_several_commits_name_them_all() -> None:
    told = {"commits": ["0123456789abcdef", "f" * 40], "days": ["2026-11-20", "2026-11-21"]}
    assert page.origin(told) == (
        "Measured on an unknown GPU on 2026-11-20 and 2026-11-21, by commits 0123456789ab, ffffffffffff."
    )


@pytest.mark.parametrize("name", RECORDED)
def test_the_committed_page_is_what_the_recordings_give(name: str, folder: Path) -> None:
    validation, text = VALIDATIONS[name], (folder / page.PAGE).read_text(encoding="utf-8")
    result = validation.score(VALIDATION / name)
    blocks = page.blocks(result, validation.tables(result), validation.notes(result))
    remedy = f"run: python -m benchmarks.validation {name} --write docs/validation"
    assert formatted(page.fill(text, blocks)) == text, remedy
    assert page.as_json(result) == (folder / f"{name}.json").read_text(encoding="utf-8"), remedy
