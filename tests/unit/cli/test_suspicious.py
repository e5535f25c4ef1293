"""Launches whose values contradict each other: ``check`` and ``baseline`` refuse them by name, and
take them where that is asked for."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from ncubble.cli.main import main
from ncubble.recordings import REPEATS, ROOT
from tests.helpers.damaged_reports import tampered_run

GEMM = REPEATS / "tensor_core_gemm" / "stages3"
WHY = "cycles, but duration times SM clock gives"
TRIED = "--no-history", "--no-config"
ACCEPTED = "--setting", "allow_suspicious=true"


def slow_clock(metrics) -> None:
    """Launch 2 of the five takes twice as long, in as many cycles."""
    wrong = (metrics["metric"] == "gpu__time_duration.sum") & (metrics["launch"] == 2)
    assert wrong.sum() == 1
    metrics.loc[wrong, "value"] *= 2


@pytest.fixture
def ncubble(capsys):
    """Runs a command; returns its exit code and what it wrote."""

    def _run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        written = capsys.readouterr()
        return int(ended.value.code or 0), written.out, written.err

    return _run


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache that may be changed: a run and its copy share what it holds."""
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def intact(cache, ncubble, tmp_path):
    """A baseline of the run before one of its five launches becomes suspicious."""
    store = tmp_path / "store"
    assert ncubble("baseline", GEMM, "--out", store, "--no-config")[0] == 0
    return store


@pytest.fixture
def suspicious(intact, tmp_path):
    """A run of five launches, one of them suspicious."""
    return tampered_run(GEMM, tmp_path / "gemm", "metrics", slow_clock)


def test_an_intact_run_passes(ncubble, repository, cache):
    assert ncubble("check", GEMM, "--baseline", repository / "baselines", *TRIED)[0] == 0


def test_a_suspicious_run_is_not_judged(ncubble, repository, suspicious):
    code, text, _ = ncubble("check", suspicious, "--baseline", repository / "baselines", *TRIED)
    assert code == 3
    assert "nothing is judged, because 1 of 5 launches have suspicious values" in text and "allow_suspicious" in text
    assert f"suspicious: {suspicious} launch 2: " in text and WHY in text


def test_accepted_launches_are_judged_and_still_named(ncubble, repository, suspicious):
    code, text, _ = ncubble("check", suspicious, "--baseline", repository / "baselines", *TRIED, *ACCEPTED)
    assert code == 0
    assert f"accepted although suspicious: {suspicious} launch 2: " in text and WHY in text


@pytest.mark.parametrize("accepted", [False, True])
def test_every_output_names_suspicious_launches(ncubble, repository, suspicious, tmp_path, accepted):
    files = ("--junit", tmp_path / "gate.xml", "--markdown", tmp_path / "gate.md")
    options = ("--baseline", repository / "baselines", *TRIED, "--json", "--github", *files)
    code, text, lines = ncubble("check", suspicious, *options, *(ACCEPTED if accepted else []))
    assert code == (0 if accepted else 3)
    (kernel,) = json.loads(text)["kernels"]
    (launch,) = kernel["suspicious"]
    assert (launch["path"], launch["launch"]) == (str(suspicious), 2) and WHY in " ".join(launch["contradictions"])
    suite = ET.fromstring((tmp_path / "gate.xml").read_text())[0]  # noqa: S314 (our own)
    place = "testcase/system-out" if accepted else "testcase/error"
    assert any(f"{suspicious} launch 2: " in (case.text or case.get("message", "")) for case in suite.findall(place))
    assert suite.get("errors") == ("0" if accepted else "1")
    assert WHY in (tmp_path / "gate.md").read_text()
    (mark,) = [line for line in lines.splitlines() if line.startswith("::warning")]
    assert "launch 2: " in mark and WHY in mark


def test_a_suspicious_regression_is_not_judged_either(ncubble, suspicious, tmp_path):
    empty = tmp_path / "none"
    empty.mkdir()
    limits = ("--rule", "cycles <= 1000", "--allow-new", "--baseline", empty)
    assert ncubble("check", suspicious, *limits, *TRIED, *ACCEPTED)[0] == 1
    assert ncubble("check", suspicious, *limits, *TRIED)[0] == 3


def test_suspicious_launches_are_neither_recorded_nor_put_in_place_of_a_baseline(ncubble, intact, suspicious, tmp_path):
    code, _, text = ncubble("baseline", suspicious, "--out", tmp_path / "other", "--no-config")
    assert code == 3 and not (tmp_path / "other").exists()
    assert f"{suspicious} launch 2: " in text and WHY in text and "allow_suspicious" in text
    before = {path: path.read_text() for path in intact.rglob("*.json")}
    update = ("baseline", suspicious, "--out", intact, "--no-config", "--force")
    assert ncubble(*update)[0] == 3
    assert {path: path.read_text() for path in before} == before
    code, _, text = ncubble(*update, *ACCEPTED)
    assert code == 0 and "warning: accepted although suspicious: " in text
    assert {path: path.read_text() for path in before} != before


@pytest.mark.parametrize("text", ["", "???"], ids=["lost", "not disassembled"])
def test_a_rule_on_a_part_without_machine_code_never_passes(ncubble, tmp_path, cache, text):
    def lose(code) -> None:
        code["sass"] = text

    run = ROOT / "tensor_core_gemm" / "stages2"
    rule = ("--rule", "copy_cost <= 99", "--allow-new", "--baseline", tmp_path / "none", *TRIED, "--json")
    (tmp_path / "none").mkdir()
    code, out, _ = ncubble("check", run, *rule)
    assert (code, json.loads(out)["kernels"][0]["limits"][0]["verdict"]) == (0, "pass")
    lost = tampered_run(run, tmp_path / "lost", "code", lose)
    code, out, _ = ncubble("check", lost, *rule, *ACCEPTED)
    (limit,) = json.loads(out)["kernels"][0]["limits"]
    assert (code, limit["verdict"], limit["value"]) == (3, "nothing_measured", None)
