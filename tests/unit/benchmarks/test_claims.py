"""Each claim of the seed documents is decided by a rule on measured values, and the page is what
follows from them."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ncubble.kernels.build import broken_promises, build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from tests.helpers.markdown import formatted


@pytest.fixture(scope="module")
def suite(repository: Path) -> Any:
    """The modules of benchmarks/claims."""
    modules = ("rules", "registry", "page", "runner")
    return SimpleNamespace(
        **{name: importlib.import_module(f"benchmarks.claims.{name}") for name in modules},
        folder=repository / "benchmarks" / "claims" / "measurements",
    )


@pytest.fixture(scope="module")
def claims(suite: Any) -> list[Any]:
    return list(suite.rules.load())


MEASURED = Path(__file__).resolve().parents[3] / "docs" / "validation" / "claims.json"


def committed() -> dict[str, dict[str, Any]]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8"))["measurements"])


def invented(value: Any = 1) -> dict[str, dict[str, Any]]:
    """All measurements, with ``value`` for each of their values."""
    return {name: {"values": dict.fromkeys(told["values"], value)} for name, told in committed().items()}


def claim(suite: Any, **fields: Any) -> Any:
    return suite.rules.Claim(
        **{"id": "000-x", "seed": "000", "claim": "x", "kind": "measured", "shown": "{m.a}", **fields}
    )


def test_what_rests_on_recordings_is_what_they_give_by_the_rules_of_today(suite: Any) -> None:
    known = suite.registry.load_all()
    recorded = [name for name in known if name.startswith("recorded_")]
    assert len(recorded) >= 2
    for name in recorded:
        assert committed()[name]["values"] == pytest.approx(known[name].take()), (
            f"python -m benchmarks.claims --only {name}"
        )


def test_every_value_that_a_claim_refers_to_is_measured(suite: Any, claims: list[Any]) -> None:
    known, told = suite.registry.load_all(), committed()
    assert set(told) == set(known)
    unknown = {
        f"{item.id}: {name}.{key}" for item in claims for name, key in item.used if key not in told[name]["values"]
    }
    assert not unknown


def test_every_measurement_serves_a_claim_or_a_question(suite: Any, claims: list[Any]) -> None:
    used = {name for item in claims for name in item.measurements} | suite.page.NEEDED
    assert used == set(suite.registry.load_all())


def test_every_document_is_covered_and_named_by_the_ids(suite: Any, claims: list[Any]) -> None:
    assert {item.seed for item in claims} == set(suite.page.SEEDS)
    assert all(item.id.startswith(f"{item.seed}-") for item in claims)


def test_every_claim_has_a_verdict_and_can_be_shown_whatever_was_measured(suite: Any, claims: list[Any]) -> None:
    for value in (0, 1, -3):
        results = invented(value)
        for item in claims:
            assert suite.rules.verdict(item, results) in suite.page.VERDICTS[:4]
        text = suite.page.page(claims, {"measurements": results})
        assert all(item.claim.replace("|", "\\|") in text for item in claims)
        assert "not measured" not in text.casefold()


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(3, 1.0, "true"), (3, 9.0, "partly"), (1, 9.0, "false"), (None, 1.0, "not measured")]
)
def test_a_verdict_counts_the_rules_that_hold(suite: Any, a: float | None, b: float, expected: str) -> None:
    item = claim(suite, rules=("m.a > 2", "m.b < n.c * 0.5"))
    results = {"m": {"values": {"a": a, "b": b}}, "n": {"values": {"c": 4}}}
    assert suite.rules.verdict(item, results) == expected


def test_truth_values_are_compared_and_shown_as_words(suite: Any) -> None:
    item = claim(suite, rules=("m.a == true",))
    assert suite.rules.verdict(item, {"m": {"values": {"a": True}}}) == "true"
    assert suite.rules.verdict(item, {"m": {"values": {"a": False}}}) == "false"
    assert suite.rules.shown(item, {"m": {"values": {"a": False}}}) == "no"


def test_boxes_are_expected_where_address_arithmetic_puts_them() -> None:
    """By hand: every second row of two columns from (1, 1) on, the last row outside; and pieces of
    16 bytes as a swizzle of 32 bytes has them."""
    runs = importlib.import_module("benchmarks.claims.measurements.layout_runs")
    memory = np.arange(32, dtype=np.uint8)
    box = runs.Box((4, 4), (8,), (2, 4), "UINT8", at=(1, 1), steps=(1, 2), size=1)
    assert box.expected(memory).tolist() == [9, 10, 25, 26]
    assert runs.Box((4, 3), (8,), (2, 4), "UINT8", at=(1, 1), steps=(1, 2), size=1).expected(memory).tolist() == [
        *(9, 10, 0, 0)
    ]
    pieces = np.repeat(np.arange(16, dtype=np.uint8), 16)
    assert runs.swizzled(pieces, 32)[::16].tolist() == [*range(8), 9, 8, 11, 10, 13, 12, 15, 14]
    assert runs.swizzled(pieces, 0)[::16].tolist() == list(range(16))


def test_a_failed_measurement_is_told_with_its_reason(suite: Any) -> None:
    item = claim(suite, rules=("m.a > 2",))
    results = {"m": {"failed": "did not end within 40 s"}}
    assert suite.rules.verdict(item, results) == "not measured"
    assert "did not end within 40 s" in suite.page.line(item, results)
    assert "did not end within 40 s" in suite.page.page([item], {"measurements": results})


@pytest.mark.parametrize(
    "fields",
    [
        {"rules": ("m.a is large",)},
        {"rules": ()},
        {"rules": ("m.a > 1",), "shown": ""},
        {"kind": "guessed"},
        {"kind": "not testable"},
        {"kind": "not testable", "reason": "no B200", "rules": ("m.a > 1",)},
    ],
    ids=str,
)
def test_a_claim_that_nothing_decides_is_refused(suite: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="000-x"):
        claim(suite, **fields)


def test_a_value_that_is_no_number_is_none(suite: Any) -> None:
    assert suite.registry.Measurement("odd", lambda: {"a": math.nan, "b": 1.23456789}).take() == {
        "a": None,
        "b": 1.23457,
    }


WORKER = """
import json, sys, time
for name in sys.argv[2:]:
    if name == "hangs":
        time.sleep(60)
    if name == "dies":
        sys.exit(7)
    told = {"failed": "a fault"} if name == "fails" else {"values": {"a": 1}}
    print(json.dumps({"name": name, **told, "seconds": 0.1}), flush=True)
"""


def test_what_fails_hangs_or_dies_costs_its_own_figures_only(
    suite: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "worker.py"
    program.write_text(WORKER, encoding="utf-8")
    names = ("first", "fails", "second", "dies", "hangs", "last")
    known = {name: suite.registry.Measurement(name, dict, 1.0, name != "second") for name in names}
    monkeypatch.setattr(suite.runner, "PROGRAM", (sys.executable, str(program)))
    monkeypatch.setattr(suite.runner, "KNOWN", known)
    monkeypatch.setattr(suite.runner, "load_all", lambda: known)
    monkeypatch.setattr(suite.runner, "START_S", 4.0)
    told: list[str] = []
    found = suite.runner.take(names, lambda name, _: told.append(name))
    assert list(found) == list(names)
    assert [name for name in names if "values" in found[name]] == ["first", "second", "last"]
    assert found["fails"]["failed"] == "a fault"
    assert "7" in found["dies"]["failed"]
    assert "did not end" in found["hangs"]["failed"]
    assert len(told) == len(names)


def test_every_measured_claim_could_be_false(suite: Any, claims: list[Any]) -> None:
    """A value between two bounds breaks one at most: two such rules give partly, never false."""
    for item in claims:
        bounds: dict[tuple[str, str], list[tuple[str, float]]] = {}
        for left, key, comparison, _, _, _, bound in map(suite.rules._parts, item.rules):
            if bound not in (None, "true", "false"):
                bounds.setdefault((left, key), []).append((comparison[0], float(bound)))
        for value, limits in bounds.items():
            least = [bound for sign, bound in limits if sign == ">"]
            most = [bound for sign, bound in limits if sign == "<"]
            assert not (least and most and min(least) <= max(most)), f"{item.id}: {value} meets one rule or the other"


@pytest.mark.parametrize("device", ["NVIDIA H200", "NVIDIA H100"])
def test_what_is_taken_anew_on_another_gpu_names_it_and_the_rest_keeps_its_own(
    suite: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    program = importlib.import_module("benchmarks.claims.__main__")
    kept, out = tmp_path / "kept.json", tmp_path / "out.json"
    setting = {"date": "2026-11-21", "device": "NVIDIA H200", "driver": "1", "nvcc": "2", "ncu": "3"}
    kept.write_text(json.dumps({"schema": 1, **setting, "measurements": invented()}))
    now = {**setting, "date": "2026-11-25", "device": device}
    monkeypatch.setattr(program.setting, "setting", lambda: dict(now))
    monkeypatch.setattr(program.setting, "gpus", lambda: 2)
    monkeypatch.setattr(
        program.runner, "take", lambda names, add: [add(name, {"values": {"us": 1.0}}) for name in names]
    )
    monkeypatch.setattr(program.page, "line", lambda item, results: "")
    program.measure(out, kept, ["online_softmax"])
    told = json.loads(out.read_text())
    other = device != "NVIDIA H200"
    assert {key: told[key] for key in setting} == (setting if other else now)
    named = {name: item["device"] for name, item in told["measurements"].items() if "device" in item}
    assert named == ({"online_softmax": device} if other else {})


def test_what_needs_more_gpus_than_there_are_is_kept_or_says_so(
    suite: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = importlib.import_module("benchmarks.claims.__main__")
    kept, out = tmp_path / "kept.json", tmp_path / "out.json"
    setting = {"date": "2026-11-21", "device": "NVIDIA H200", "driver": "1", "nvcc": "2", "ncu": "3"}
    told = invented() | {"peer_events": {"failed": "?"}}
    kept.write_text(json.dumps({"schema": 1, **setting, "measurements": told}))
    monkeypatch.setattr(program.setting, "setting", lambda: dict(setting))
    monkeypatch.setattr(program.setting, "gpus", lambda: 1)
    monkeypatch.setattr(program.runner, "take", lambda names, add: [add(name, {"values": {}}) for name in names])
    monkeypatch.setattr(program.page, "line", lambda item, results: "")
    program.measure(out, kept, ["peer_copies", "online_softmax"])
    found = json.loads(out.read_text())["measurements"]
    assert found["peer_copies"] == told["peer_copies"] and found["online_softmax"] == {"values": {}}


def test_a_row_names_the_gpu_of_measurements_from_elsewhere(suite: Any) -> None:
    item = claim(suite, rules=("m.a > 0", "n.a > 0"), shown="{m.a} and {n.a}")
    results = {"m": {"values": {"a": 1}, "device": "NVIDIA H100"}, "n": {"values": {"a": 2}}}
    assert "| 1 and 2 (NVIDIA H100) |" in suite.page.seed_table([item], results)


def test_the_page_is_what_the_measurements_give(suite: Any, claims: list[Any], repository: Path) -> None:
    document, told = repository / "docs" / "claims.md", json.loads(MEASURED.read_text(encoding="utf-8"))
    text = suite.page.page(claims, told)
    assert document.read_text(encoding="utf-8") == formatted(text), "run: python -m benchmarks.claims --write"
    missing = {item.id for item in claims if suite.rules.verdict(item, told["measurements"]) == "not measured"}
    assert not missing


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("cp_async_16_bytes", True),
        ("cp_async_2_bytes", False),
        ("tma_sm80", False),
        ("tma_short_name", False),
        ("tma_sm90", True),
    ],
)
def test_what_ptxas_takes_is_still_what_the_verdicts_rest_on(suite: Any, name: str, taken: bool) -> None:
    checks: ModuleType = importlib.import_module("benchmarks.claims.measurements.compile_checks")
    assert checks.compiles(sys.modules["benchmarks.claims.measurements.snippets"].SNIPPETS[name]) is taken


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("wmma_operands", {"source": "global"}), ("resident_reads", {"path": "cp_async"}), ("resident_reads", {})],
    ids=str,
)
def test_the_micro_kernels_are_what_they_say(suite: Any, name: str, parameters: dict[str, Any]) -> None:
    case = make_case(find_spec(name, suite.folder), parameters)
    assert broken_promises(case, "sm_90a", build(case, "sm_90a")) == []
