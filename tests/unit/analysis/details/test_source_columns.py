"""Columns of the code of one launch: samples by cause, files, and what is lacking."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pytest

from ncubble import dashboard
from ncubble.analysis.account.palette import contrast
from ncubble.analysis.account.stalls import CLASSES
from ncubble.analysis.details import source_columns as source_model
from tests.helpers.source_rows import FILE, code

ASSETS = Path(dashboard.__file__).parent / "assets"


MUTED = {"light": "#566373", "dark": "#9daaba"}


def account(**weights: list[float]) -> Any:
    table = {name: weights.get(name, [0.0] * 6) for name in CLASSES}
    parts = {"tensor_busy": 50.0, "data_wait": 30.0, "sync_wait": 10.0, "issue": 10.0}
    return SimpleNamespace(parts=parts, weights=pd.DataFrame(table))


def causes(shown: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By id, with rows and percent as the browser computes them."""
    found = {}
    for cause in shown["causes"]:
        rows = np.cumsum(cause["steps"]).tolist()
        percent = [round(count * cause["scale"], 6) for count in cause["counts"]]
        found[cause["id"]] = cause | {"rows": rows, "percent": percent}
    return found


def test_samples_are_sent_in_percent_by_cause_largest_first() -> None:
    shown = source_model.view(code(), {})
    assert [cause["id"] for cause in shown["causes"]] == ["samples", "barrier", "selected"]
    assert causes(shown)["samples"]["rows"] == [0, 1, 2, 3, 4]
    assert causes(shown)["samples"]["percent"] == [10.0, 20.0, 60.0, 6.0, 4.0]
    assert causes(shown)["barrier"]["sum"] == pytest.approx(65.0)


def test_parts_are_sent_in_percent_of_kernel_time_as_in_the_account() -> None:
    weighed = account(data_wait=[0, 0, 30.0, 0, 0, 0], issue=[5.0, 0, 0, 0, 0, 0], unit=[0, 0, 0, 6.0, 4.0, 0])
    shown = causes(source_model.view(code(), {}, weighed))
    assert (shown["data_wait"]["unit"], shown["data_wait"]["sum"]) == ("time", pytest.approx(30.0))
    assert shown["data_wait"]["rows"] == [2]
    # issue also holds samples at the unit, which no instruction of it has: 5 samples are 5 % here,
    # not its 10 %.
    assert shown["issue"]["sum"] == pytest.approx(5.0)
    assert (shown["unit"]["unit"], shown["unit"]["sum"]) == ("samples", pytest.approx(10.0))
    assert "sync_wait" not in shown


def test_the_main_stall_is_the_largest_and_selected_only_without_another() -> None:
    shown = source_model.view(code(), {})
    named = [shown["causes"][number]["id"] if number >= 0 else "" for number in shown["stall"]]
    assert named == ["selected", "barrier", "barrier", "selected", "selected", ""]


def test_files_come_by_samples_with_text_where_the_report_carries_it() -> None:
    shown = source_model.view(code(), {"/inc/mma.hpp": "one\ntwo", "/etc/unrelated": "secret"})
    assert [(file["name"], file["text"], file["state"]) for file in shown["files"]] == [
        (FILE, None, "missing"),
        ("/inc/mma.hpp", "one\ntwo", "text"),
    ]
    assert shown["file"] == [0, 0, 0, 1, 1, -1]


def test_texts_beyond_the_limit_are_named_and_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_model, "MOST_TEXTS", 10)
    shown = source_model.view(code(), {FILE: "x" * 8, "/inc/mma.hpp": "y" * 8})
    assert [file["state"] for file in shown["files"]] == ["text", "large"]


def test_no_file_of_this_machine_is_read_for_a_name_in_a_report(tmp_path: Path) -> None:
    secret = tmp_path / "secret.cu"
    secret.write_text("do not show")
    shown = source_model.view(code(file=str(secret), line=1), {})
    assert shown["files"] == [{"name": str(secret), "text": None, "state": "missing"}]
    assert "do not show" not in json.dumps(shown)


def test_what_was_not_collected_is_null_never_zero() -> None:
    assert source_model.view(code(), {})["executed"] == [8.0, 8.0, 8.0, 64.0, 64.0, None]
    assert source_model.view(code(executed=np.nan), {})["executed"] is None


@pytest.mark.parametrize(
    ("frame", "about", "command"),
    [
        (code().iloc[0:0], "code", "--set source"),
        (code(samples=0.0, barrier=0.0, selected=0.0), "samples", "--set source"),
        (code(file="", line=0), "lines", "-lineinfo"),
    ],
)
def test_what_is_lacking_says_what_to_collect(frame: pd.DataFrame, about: str, command: str) -> None:
    found = {note["about"]: note for note in source_model.view(frame, {})["notes"]}
    assert found[about]["command"] == command
    assert "ot collected" in found[about]["text"]


def test_an_account_without_weights_says_so() -> None:
    found = source_model.view(code(), {}, SimpleNamespace(parts={}, weights=None))["notes"]
    assert [note["about"] for note in found] == ["parts"]


def test_numbers_that_no_counter_gives_stay_numbers() -> None:
    odd = code(samples=[np.nan, np.inf, -5.0, 1e308, 2.0, 0.0], line=[-3, 1, 2, 2**40, 1, 0])
    sent = orjson.dumps(source_model.view(odd, {}))
    assert sum(causes(json.loads(sent))["samples"]["percent"]) == pytest.approx(100.0)


def test_a_very_long_listing_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_model, "MOST_ROWS", 3)
    shown = source_model.view(code(), {}, account(sync_wait=[0, 0, 60.0, 0, 4.0, 0]))
    assert len(shown["sass"]) == len(shown["stall"]) == 3
    assert causes(shown)["sync_wait"]["rows"] == [2]
    assert causes(shown)["samples"]["sum"] == pytest.approx(100.0)
    assert shown["notes"][-1]["text"] == "The first 3 of 6 instructions are shown."


@pytest.mark.parametrize(("theme", "surface"), [("light", "#ffffff"), ("dark", "#17202b")])
def test_words_of_code_can_be_read_on_every_row(theme: str, surface: str) -> None:
    blocks = re.findall(r"([^{}]*)\{([^{}]*)\}", (ASSETS / "source.css").read_text())
    chosen = next(body for name, body in blocks if ("dark" in name) == (theme == "dark") and "--w-opcode" in body)
    tokens = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", chosen))
    words = {name: color for name, color in tokens.items() if name.startswith("w-")} | {"muted": MUTED[theme]}
    rows = [surface, *(color for name, color in tokens.items() if name in ("row-linked", "row-rested", "row-chosen"))]
    assert len(words) == 9 and len(rows) == 4
    low = [(name, row) for name, color in words.items() for row in rows if contrast(color, row) < 4.5]
    assert low == []
    assert contrast(source_model.HEAT, surface) >= 3.0
