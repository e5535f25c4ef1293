"""Planted waste before there is a GPU: all sides can be launched, are what their words say, and the
rules that read machine code know it. How launches of reports are judged."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.validation import waste
from benchmarks.validation.planted import PLANTED
from benchmarks.validation.planted.pairs import WASTE, PlantedPair, PlantedSide
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.evidence import Evidence
from ncubble.analysis.changes.change import KINDS, Change
from ncubble.analysis.diagnosis.verdict import UNKNOWN
from ncubble.analysis.diagnosis.waste import waste_of
from ncubble.analysis.report.frames import opcode
from ncubble.errors import ReportError
from ncubble.kernels.build import broken_promises, build, disassemble
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import Case, make_case
from tests.helpers.dashboard_frames import verdict as verdict_of

EVERY = pytest.mark.parametrize("pair", WASTE, ids=lambda pair: pair.name)
PAGE = Path(__file__).resolve().parents[4] / "docs" / "validation" / "waste.md"
_SASS = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?) ?;", re.MULTILINE)


def case_of(side: PlantedSide) -> Case:
    return make_case(find_spec(side.kernel, PLANTED), side.parameters, side.shape)


@EVERY
def test_a_pair_speaks_the_words_of_the_report_and_stands_on_the_page(pair: PlantedPair) -> None:
    assert {*pair.kinds, *pair.never} <= set(KINDS) and (pair.kinds or pair.never)
    assert f"`{pair.name}`" in PAGE.read_text(encoding="utf-8")
    case = case_of(pair.sick)
    if pair.cured is not None:
        cured = case_of(pair.cured)
        assert cured.flops == case.flops and cured.label != case.label
        assert [cured.extent(array) for array in cured.spec.outputs] == [
            case.extent(array) for array in case.spec.outputs
        ]


@pytest.mark.usefixtures("compiler")
@EVERY
def test_machine_code_is_what_the_spec_promises_and_shows_a_bad_build(pair: PlantedPair) -> None:
    case = case_of(pair.sick)
    built = build(case, "sm_90a")
    assert broken_promises(case, "sm_90a", built) == []
    sass = _SASS.findall(disassemble(built.cubin))
    code = {"sass": sass, "opcode": list(map(opcode, sass)), "executed": 1.0, "file": "", "line": 0}
    found = Evidence(source=pd.DataFrame(code), quantities={"sms": 132.0}, shares={"fma": 30.0})
    account = BubbleAccount(0, "fma", {"tensor_busy": 0.0, "unit_busy": 30.0, "issue": 70.0})
    told = [change.kind for change in waste_of(found, account, "", triton=False)]
    assert ("build" in told) == ("build" in pair.kinds)
    assert any("C7511" in text for text in built.warnings) == (pair.name == "serialized_wgmma")


def _in_arrays(x: np.ndarray) -> np.ndarray:
    return np.concatenate([member * x.sum(axis=0) for member in range(1, 9)]).reshape(-1, 8)


@pytest.mark.parametrize(
    ("kernel", "parameters", "shape", "results"),
    [
        ("planted_banks", {"rounds": 64}, {"rows": 128}, lambda x: 64 * x.sum(axis=1)),
        ("planted_strides", {"order": "columns"}, {"rows": 256, "cols": 16}, lambda x: 2 * x.T.reshape(x.shape)),
        (
            *("planted_strides", {"order": "members"}, {"rows": 256, "cols": 16}),
            lambda x: 2 * x.reshape(-1, 8).T.reshape(x.shape),
        ),
        ("planted_strides", {"order": "rows"}, {"rows": 256, "cols": 16}, lambda x: 2 * x),
        ("planted_local", {"entries": 32}, {"n": 256}, lambda x: x * sum(range(1, 33)) / 2),
        ("planted_literals", {"literal": "float"}, {"n": 256}, lambda x: 1 + (x - 1) * 0.75**32),
        ("planted_atomics", {}, {"n": 512, "ctas": 2}, lambda x: x[::256]),
        ("planted_stream", {"width": 1, "steps": 1}, {"n": 1024}, lambda x: 255 - x),
        ("planted_members", {"order": "passes"}, {"reads": 2, "n": 256}, lambda x: np.outer(x.sum(0), range(1, 9))),
        ("planted_sums", {"at": "memory"}, {"terms": 3, "n": 256}, lambda x: x.sum(0, keepdims=True)),
        ("planted_sums", {"at": "running"}, {"terms": 3, "n": 256, "kept": 3}, lambda x: x.cumsum(0)),
        *(("planted_members", {"order": "arrays"}, {"reads": reads, "n": 256}, _in_arrays) for reads in (1, 3)),
    ],
)
def test_references_say_what_the_kernels_compute(kernel, parameters, shape, results) -> None:
    case = make_case(find_spec(kernel, PLANTED), parameters, shape)
    inputs = draw_inputs(case, 0)
    output = case.spec.outputs[0]
    said = case.reference(inputs, np.arange(case.extent(output)[0]))["y"]
    assert np.allclose(said, results(inputs["x"].astype(np.float64)))


def test_sectors_are_read_one_of_each_row_in_turn() -> None:
    case = make_case(find_spec("planted_strides", PLANTED), {"order": "sectors"}, {"rows": 256, "cols": 16})
    x = np.arange(256 * 16, dtype=np.float32).reshape(256, 16)
    said = case.reference({"x": x}, np.arange(256))["y"].ravel() / 2
    assert said[:24].tolist() == [*range(8), *range(16, 24), *range(32, 40)] and said[2048] == 8


def test_chains_lead_from_line_to_line_and_end_where_single_hops_do() -> None:
    case = make_case(find_spec("planted_chain", PLANTED), {}, {"n": 4096, "chains": 256})
    link = draw_inputs(case, 0)["link"]
    assert (
        sorted(link.tolist()) == list(range(4096)) and (link[::32] % 32 == 0).all() and (np.diff(link[:32]) == 1).all()
    )
    hops = next(int(scalar.value) for scalar in case.spec.scalars)
    ends = []
    for at in range(256):
        for _ in range(hops):
            at = link[at]
        ends.append(at)
    assert case.reference({"link": link}, np.arange(256))["y"].tolist() == ends


def test_polynomials_are_drawn_as_machine_words_wrap() -> None:
    case = make_case(find_spec("planted_lookup", PLANTED), {}, {"n": 256})
    coefficients = draw_inputs(case, 0)["coefficients"].astype(np.float64)
    drawn = 201 * 2654435761 % 2**32
    at, total = 1.0 + (drawn & 0x7FFFFF) / 2**23, 0.0
    for _ in range(256):
        drawn = (drawn * 1664525 + 1013904223) % 2**32
        total += sum(c * at**power for power, c in enumerate(coefficients[::-1, drawn >> 28]))
    said = case.reference({"coefficients": coefficients}, np.arange(256))["y"][201]
    assert said == pytest.approx(total)


def expected(**members) -> waste.Expected:
    return waste.Expected("k", Path("k"), 0, **members)


@pytest.mark.parametrize(
    ("changes", "wanted", "judged"),
    [
        (["atomics"], {"kinds": ["atomics"]}, "right"),
        (["epilogue", "atomics"], {"kinds": ["atomics"]}, "partly"),
        (["epilogue", "atomics"], {"kinds": ["atomics"], "never": ["epilogue"]}, "wrong"),
        (["copies"], {"kinds": ["atomics"]}, "wrong"),
        (["copies"], {"never": ["atomics"]}, "right"),
        (["atomics"], {"never": ["atomics"]}, "wrong"),
        (["atomics"], {"kinds": ["atomics"], "says": "do atomics"}, "right"),
        (["atomics"], {"kinds": ["atomics"], "says": "one address"}, "partly"),
        (["atomics"], {"kinds": ["atomics"], "unit": "l1tex"}, "partly"),
        ([], {"kinds": [UNKNOWN]}, "right"),
    ],
)
def test_a_launch_is_judged_by_kind_by_what_it_must_not_be_and_by_its_words(changes, wanted, judged) -> None:
    verdict = verdict_of("k", 1e5, "none", unit="l2")
    listed = [Change(kind=kind, text=f"do {kind}", part="issue") for kind in changes]
    assert waste.judged(replace(verdict, changes=listed), expected(**wanted)) == judged


def test_reports_that_are_not_there_are_counted_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"none of the reports that field\.csv names"):
        waste.score_field(tmp_path)
