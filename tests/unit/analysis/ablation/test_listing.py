"""Kernels read off their disassembly alone: against recorded profiles of the same code, and on code
of a few lines."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ncubble.analysis.ablation.code import ASIDE, TRIPS, listing, parts_of, unit_of
from ncubble.analysis.ablation.experiment import lines_of_one
from ncubble.analysis.ablation.result import MeasuredPart
from ncubble.analysis.report.report import Report
from ncubble.errors import MeasurementError, ReportError
from ncubble.kernels.build import build, disassemble
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case
from ncubble.recordings import ROOT


@pytest.mark.parametrize(
    ("name", "parameters", "recorded", "unit"),
    [
        ("gemm_tma", {"stages": 2}, "gemm_tma/stages2", "tensor"),
        ("async_pipeline", {"stages": 3}, "async_pipeline/stages3", "fma"),
    ],
)
def test_the_code_alone_shows_the_parts_that_a_profile_shows(
    name: str, parameters: dict[str, int], recorded: str, unit: str
) -> None:
    case = make_case(find_spec(name), parameters)
    try:
        text = disassemble(build(case, "sm_90a").cubin, lines=True)
    except MeasurementError as error:
        pytest.skip(str(error))
    own, source = listing(text, case.spec.entry), Report.open(ROOT / recorded).launch(0).source
    assert unit_of(own) == unit
    assert list(own["pc"][: len(source)]) == list(source["pc"])
    same = own["opcode"][: len(source)].reset_index(drop=True) == source["opcode"].reset_index(drop=True)
    assert same.all()
    assert {Path(file).name for file in own["file"] if file} >= {Path(file).name for file in source["file"] if file}
    assert dict(parts_of(own, unit).rows) == dict(parts_of(source, unit).rows)


def text_of(*lines: str) -> str:
    """A disassembly; a line with a colon is a label."""
    head = ['\t.section\t.text.other,"ax",@progbits', "        /*0000*/                   EXIT ;"]
    head += ['\t.section\t.text.kernel,"ax",@progbits', "kernel:", ".text.kernel:"]
    pc, body = 0, []
    for line in lines:
        if line.endswith(":"):
            body.append(line)
            continue
        body.append(f"        /*{pc:04x}*/                   {line} ;")
        pc += 16
    return "\n".join([*head, *body])


def counts(*lines: str) -> dict[str, float]:
    """Estimated executions by opcode."""
    frame = listing(text_of(*lines), "kernel")
    return dict(zip(frame["opcode"], frame["executed"], strict=True))


def test_instructions_of_the_innermost_loop_around_the_mma_run_most() -> None:
    found = counts(
        *("MOV R1, R2", ".L_x_0:", "S2R R3, SR_TID.X", ".L_x_1:", "HMMA.16816.F32 R4, R4, R4, R4"),
        *("@P0 BRA `(.L_x_1)", "STG.E [R2], R4", "@P1 BRA `(.L_x_0)", ".L_x_2:", "LDG.E R9, [R8]"),
        *("@P2 BRA `(.L_x_2)", "EXIT"),
    )
    assert found["HMMA.16816.F32"] == TRIPS**2
    assert found["STG.E"] == found["S2R"] == found["LDG.E"] == ASIDE * TRIPS
    assert found["MOV"] == found["EXIT"] == 1.0


def test_a_repeated_wait_behind_the_code_makes_no_loop() -> None:
    found = counts(
        *(".L_x_0:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2", "@!P0 BRA `(.L_x_9)", ".L_x_1:"),
        *("HGMMA.64x64x16 R4, gdesc[UR4], R4", "EXIT", ".L_x_9:", "YIELD", "BRA `(.L_x_0)", "NOP"),
    )
    assert set(found.values()) == {1.0}


def test_the_unit_is_the_pipe_that_fills_the_innermost_loop() -> None:
    loop = ("MOV R1, R2", ".L_x_0:", "{}", "{}", "LDS R2, [R3]", "@P0 BRA `(.L_x_0)", "EXIT")
    for opcodes, unit in (
        (("FFMA R1, R2, R3, R1", "FADD R1, R1, R2"), "fma"),
        (("DFMA R2, R4, R6, R2", "MOV R1, R2"), "fp64"),
        (("IADD3 R1, R2, R3, RZ", "LDG.E R4, [R2]"), ""),
        (("HMMA.16816.F32 R4, R4, R4, R4", "FFMA R1, R2, R3, R1"), "tensor"),
    ):
        text = "\n".join(loop).format(*opcodes).split("\n")
        assert unit_of(listing(text_of(*text), "kernel")) == unit


def test_labels_calls_and_places_become_addresses_files_and_lines() -> None:
    text = text_of("CALL.REL.NOINC `($helper)", "BRA `(.L_x_3)", ".L_x_3:", "EXIT")
    text = text.replace("        /*0010*/", '\t//## File "/src/k.cu", line 9\n        /*0010*/', 1)
    frame = listing(text, "kernel")
    assert list(frame["sass"]) == ["CALL.REL.NOINC 0x0", "BRA 0x20", "EXIT"]
    assert list(frame["file"]) == ["", "/src/k.cu", "/src/k.cu"]
    assert list(frame["line"][1:]) == [9.0, 9.0]
    with pytest.raises(ReportError, match="no function missing"):
        listing(text, "missing")


def test_only_the_cost_of_parts_on_one_line_is_placed() -> None:
    source = pd.DataFrame(
        {"file": ["k.cu"] * 3, "line": [4.0, 4.0, 9.0], "sass": ["DEPBAR", "DEPBAR", "BAR.SYNC"], "opcode": [""] * 3}
    )
    parts = [
        MeasuredPart("data_wait", None, 20.0, 0.1, 20.0),
        MeasuredPart("copy_cost", None, 5.0, 0.1, None),
        MeasuredPart("sync_wait", None, -1.0, 0.1, None),
    ]
    found = lines_of_one(source, {"wait": (0, 1), "copy": (1, 2), "sync": (2,)}, parts)
    assert [(line.file, line.line, line.part, line.pct) for line in found] == [("k.cu", 4, "data_wait", 20.0)]
