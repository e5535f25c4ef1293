"""Traces: the header's tables, decoding of recordings right and wrong, what follows from them, and
trace events."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from ncubble.analysis.traces.dump import BEGIN, END, parse_dumps
from ncubble.analysis.traces.dump import STEP as STEP_MARK
from ncubble.analysis.traces.flights import flights
from ncubble.analysis.traces.lanes import LaneRun, read_lanes
from ncubble.analysis.traces.probe_lanes import Recorded, decode
from ncubble.analysis.traces.run import lanes_of, read_trace_facts, save_lanes, trace_facts
from ncubble.analysis.traces.summary import summarize
from ncubble.cli.commands.profile import WithProgram
from ncubble.cli.commands.trace.trace import trace
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.kernels.build import find_tool, run_tool, source_files
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.run.probe import HEADER, carries_probe, require_probe, table
from ncubble.kernels.spec.case import make_case
from ncubble.recordings import ROOT
from tests.helpers.perfetto_reader import PerfettoTrace
from tests.helpers.probe_dumps import ROLES, TAGS, dump, warp

STEP = [(0, 100, "load", 0), (100, 400, "wait_data", 0), (400, 1000, "compute", 0)]


def command(*argv: str) -> str:
    """What ``ncubble trace`` prints; raises what it raises."""
    app = typer.Typer()
    app.command(cls=WithProgram)(trace)
    return CliRunner().invoke(app, argv, catch_exceptions=False).stdout


def decoded(*dumps: bytes) -> Recorded:
    """What one file of these dumps holds."""
    return decode(parse_dumps(b"".join(dumps), "here"))


def test_python_reads_the_tags_and_roles_of_the_header():
    assert table("TAGS") == TAGS
    assert table("ROLES") == ROLES
    assert [tag for tag in TAGS if "wait" in tag] == [tag for tag in TAGS if tag.startswith("wait")]


def test_numbers_of_the_header_are_places_in_the_tables(tmp_path):
    source = tmp_path / "numbers.cpp"
    # Only what the tables expand to: the rest of the header is for the device.
    source.write_text(
        f'#define BUBBLE_OWN_TAGS(X) X(own)\n#include "{HEADER}"\n#define ONE(name) name,\n'
        "enum Tag { none, BUBBLE_TAGS(ONE) BUBBLE_OWN_TAGS(ONE) };\n"
        + "".join(f'static_assert({name} == {place}, "{name}");\n' for place, name in enumerate(TAGS) if name)
        + f'static_assert(own == {len(TAGS)}, "own");\n'
    )
    subprocess.run(["g++", "-std=c++17", "-fsyntax-only", "-x", "c++", source], check=True)


def test_macros_vanish_where_the_probe_is_off(tmp_path):
    source = tmp_path / "off.cpp"
    body = "f(a, b);{ g<1, 2>(); }await(1);h(1 );"
    source.write_text(
        f'#include "{HEADER}"\nBEGIN BUBBLE_WARP(probe, warp)BUBBLE_THREAD(p, loader)BUBBLE(probe, load, 1, f(a, b));'
        "{ BUBBLE_SCOPE(probe, compute, 2)BUBBLE(probe, store, 3, g<1, 2>()); }"
        "BUBBLE_POLL(probe, wait_slot, 4, await(1)); h(1 BUBBLE_PASS(probe)); END"
    )
    done = subprocess.run(["g++", "-E", "-P", "-x", "c++", source], check=True, capture_output=True, text=True)
    left = done.stdout.split("BEGIN")[1].split("END")[0]
    assert "".join(left.split()) == "".join(body.split())


def without_probe(text: str) -> str:
    """A source without its lines of the probe: each call of a macro leaves the statement that it
    was given."""
    found, rest = "", text
    while match := re.search(r"\bBUBBLE_?(WARP|THREAD|STEP|POLL|SCOPE|TAKE|PASS)?\(", rest):
        end, depth, commas = match.end(), 1, []
        while depth:
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(rest[end], 0)
            commas += [end] if rest[end] == "," and depth == 1 else []
            end += 1
        statement = rest[commas[2] + 1 : end - 1] if match[1] in (None, "STEP", "POLL") and len(commas) > 2 else ""
        found, rest = found + rest[: match.start()] + statement, rest[end:]
    return found + rest


def preprocessed(text: str, folder) -> str:
    """The tokens of a source whose own headers are left out, but for the probe's."""
    source = folder / "one.cpp"
    source.write_text(text)
    done = subprocess.run(["g++", "-E", "-P", "-x", "c++", source], check=True, capture_output=True, text=True)
    return "".join(done.stdout.split("BEGIN")[1].split())


PROBED = {
    path.name
    for spec in SPECS
    if carries_probe(make_case(spec))
    for path in source_files(spec.path)
    if "BUBBLE_STEP" in path.read_text() and path.resolve() != HEADER.resolve()
}


@pytest.mark.parametrize("name", sorted(PROBED))
def test_a_kernel_whose_probe_is_off_is_compiled_as_if_it_had_none(name, tmp_path):
    text = re.sub(r"#include.*", "", (HEADER.parent / name).read_text())
    assert text.count("BUBBLE") > 3
    off = preprocessed(f'#include "{HEADER}"\nBEGIN\n{text}', tmp_path)
    assert off == preprocessed(f"BEGIN\n{without_probe(text)}", tmp_path)
    assert "BUBBLE" not in off and "bubble" not in off and "probe" not in off


@pytest.mark.parametrize("flags", [[], [b"-DBUBBLE_PROBE"]], ids=["off", "on"])
def test_nvrtc_compiles_the_header_alone(flags):
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    use = "BUBBLE_WARP(probe, warp); BUBBLE(probe, compute, 3, d[threadIdx.x] += 1.f); BUBBLE_SCOPE(probe, store, 1);"
    source = f'{HEADER.read_text()}\nextern "C" __global__ void k(float* d) {{ {use} __syncthreads(); }}'
    try:
        status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
    except RuntimeError:
        pytest.skip("NVRTC is not installed")
    (status,) = nvrtc.nvrtcCompileProgram(program, 1 + len(flags), [b"--gpu-architecture=compute_75", *flags])
    # NVRTC writes into it. Twice the size: a single byte is an object that the process shares.
    log = b"  " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()


CONFIG = """
#include "bubble_probe.cuh"
#include <cstddef>
static_assert(sizeof(bubble::Config) == 104, "all");
static_assert(offsetof(bubble::Config, slots) == 24 && offsetof(bubble::Config, capacity) == 28, "slots");
static_assert(offsetof(bubble::Config, numbered) == 32 && offsetof(bubble::Config, sms) == 40, "numbered");
"""


def test_the_configuration_lies_as_python_packs_it(tmp_path):
    source = tmp_path / "config.cu"
    source.write_text(CONFIG)
    done = run_tool(
        [
            find_tool("nvcc"),
            "-std=c++17",
            "-DBUBBLE_PROBE",
            f"-I{HEADER.parent}",
            "-ptx",
            "-o",
            tmp_path / "ptx",
            source,
        ]
    )
    assert done.returncode == 0, done.stderr


def test_kernels_that_carry_the_probe_say_so():
    carrying = {spec.name for spec in SPECS if carries_probe(make_case(spec))}
    assert carrying == {
        "async_pipeline",
        "attention_fp8",
        "attention_fwd",
        "gemm_fp8",
        "gemm_tma",
        "gemm_ws",
        "tensor_core_gemm",
        "warp_pipeline",
        "warp_specialized",
    }
    with pytest.raises(UsageError, match="has no probe"):
        require_probe(make_case(find_spec("softmax_online")))


def test_own_tags_of_a_kernel_of_the_catalog_come_behind_the_headers(tmp_path):
    source = tmp_path / "mine.cu"
    source.write_text(
        "#define BUBBLE_OWN_TAGS(X) X(dequantize) \\\n    X(wait_token)\n"
        "#define BUBBLE_OWN_ROLES(X) X(scaler)\n"
        '#include "bubble_probe.cuh"\n'
    )
    files = source_files(source)
    assert HEADER in files
    assert table("TAGS", files) == (*TAGS, "dequantize", "wait_token")
    assert table("ROLES", files) == (*ROLES, "scaler")


def test_regions_come_back_in_ns_with_their_warp():
    found = decoded(dump([warp(STEP, 0, 1200, sm=3, cta=5, warp=2, role="loader")], ns_per_cycle=0.5))
    assert list(found.lanes["lane"].unique()) == ["SM 3 CTA 5 warp 2"]
    assert list(found.lanes["group"].unique()) == ["loader"]
    assert list(found.lanes["tag"]) == ["load", "wait_data", "compute"]
    np.testing.assert_allclose(found.lanes["start_ns"], [0, 50, 200], atol=1e-6)
    np.testing.assert_allclose(found.lanes["end_ns"], [50, 200, 500], atol=1e-6)
    assert found.clock.mhz == pytest.approx(2000)
    assert found.loss == type(found.loss)(0, 0, 0, 0, 0)


@pytest.mark.parametrize("before", [1, 50, 300, 999], ids=lambda cycles: f"{cycles} before the wrap")
def test_the_clock_may_wrap_within_a_warp(before):
    zero = 5 * 2**32 - before
    regions = [(zero + begin, zero + end, tag, index) for begin, end, tag, index in STEP]
    found = decoded(dump([warp(regions, zero, zero + 1200)], clock_of_sm={0: zero}))
    np.testing.assert_allclose(found.lanes["start_ns"], [0, 50, 200], atol=1e-6)
    assert found.loss.damaged == 0


def test_sms_whose_clocks_differ_meet_on_one_axis():
    zeros = {0: 10**12, 1: 77}
    warps = [warp([(z + b, z + e, t, i) for b, e, t, i in STEP], z, z + 1200, sm=sm) for sm, z in zeros.items()]
    found = decoded(dump(warps, clock_of_sm=zeros))
    starts = found.lanes.groupby("sm")["start_ns"].min()
    assert starts[0] == pytest.approx(starts[1], abs=1e-3)


def test_what_did_not_fit_is_counted():
    many = [(10 * i, STEP_MARK, "compute", i) for i in range(20)]
    found = decoded(dump([warp([], 0, 1000, marks=many)], depth=9, started=3, ns_per_cycle=0.5))
    assert len(found.lanes) == 7  # when the eighth ended is not known
    assert (found.loss.full, found.loss.warps) == (1, 2)
    assert found.loss.unseen_ns == pytest.approx((1000 - 70) * 0.5)


def test_a_slot_that_is_just_filled_has_lost_nothing():
    exact = [(10 * i, STEP_MARK, "compute", i) for i in range(8)]
    found = decoded(dump([warp([], 0, 1000, marks=exact)], depth=9))
    assert len(found.lanes) == 8
    assert found.loss.full == 0


def test_an_inner_region_interrupts_the_outer_one():
    marks = [
        (0, STEP_MARK, "load", 0),
        (100, BEGIN, "compute", 1),
        (200, BEGIN, "wait_mma", 1),
        (250, END, "", 0),
        (300, END, "", 0),
        (400, STEP_MARK, "store", 2),
    ]
    lanes = decoded(dump([warp([], 0, 500, marks=marks)], ns_per_cycle=1.0)).lanes
    assert list(lanes["tag"]) == ["load", "compute", "wait_mma", "compute", "load", "store"]
    assert list(lanes["index"]) == [0, 1, 1, 1, 0, 2]
    np.testing.assert_allclose(lanes["start_ns"], [0, 100, 200, 250, 300, 400], atol=1e-6)
    np.testing.assert_allclose(lanes["end_ns"], [100, 200, 250, 300, 400, 500], atol=1e-6)


def test_a_warp_that_never_ended_keeps_its_regions():
    found = decoded(dump([warp(STEP, 0, 1200), warp(STEP[:2], 0, 0, ended=False)]))
    assert found.loss.unended == 1
    assert len(found.lanes) == 5


def test_regions_that_no_kernel_wrote_are_left_out_and_counted():
    outside = [(0, 100, "load", 0), (2_000_000, 2_000_100, "compute", 0)]
    found = decoded(dump([warp(outside, 0, 1200)]))
    assert list(found.lanes["tag"]) == ["load"]
    assert found.loss.damaged == 2


def test_several_recordings_and_launches_are_told_apart():
    later = [(5000 + begin, 5000 + end, tag, index) for begin, end, tag, index in STEP]
    first = dump([warp(STEP, 0, 1200, launch=4), warp(later, 5000, 6200, launch=9, warp=0)])
    found = decoded(first, first)
    assert found.lanes["launch"].nunique() == 4
    assert found.lanes["lane"].str.startswith("launch 3 SM 0").any()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"no recording",
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: data + b"bubbles1",
        lambda data: data.replace(b'"warps": 1', b'"warps": 9'),
        lambda data: data.replace(b'"warps": 1', b'"warps":-1'),
        lambda data: data.replace(b'"marks": 17', b'"marks": 1'),
        lambda data: data.replace(b'"load"', b"12.345"),
        lambda data: data[:8] + b"9" * 8 + data[16:],
        lambda data: data[:16] + b"[" * (len(data) - 16),
    ],
)
def test_a_file_that_is_no_recording_is_refused(spoil):
    with pytest.raises(ReportError, match="here"):
        parse_dumps(spoil(dump([warp(STEP, 0, 1200)])), "here")


def test_any_bytes_decode_or_are_refused():
    rng = np.random.default_rng(1)
    whole = dump([warp(STEP, 0, 1200, sm=sm) for sm in range(3)])
    for _ in range(60):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 12):
            data[place] = rng.integers(256)
        try:
            found = decode(parse_dumps(bytes(data), "here"))
        except ReportError:
            continue
        assert (found.lanes["end_ns"] >= found.lanes["start_ns"]).all()
        assert np.isfinite(found.lanes[["start_ns", "end_ns"]].to_numpy()).all()
        summarize(found)


def pipeline() -> Recorded:
    """A loader that is one tile ahead of a computer: copies of 100 cycles, of which all but the
    first hide."""
    loads = [(200 * i, 200 * i + 20, "load", i) for i in range(4)]
    steps = [(200 * i, 200 * i + 20, "wait_data", i) for i in range(1, 4)]
    work = [(200 * i + 20, 200 * i + 200, "compute", i) for i in range(1, 4)]
    computer = sorted([(0, 20, "wait_data", 0), (20, 200, "compute", 0), *steps, *work])
    return decoded(
        dump([warp(loads, 0, 800, role="loader"), warp(computer, 0, 800, role="computer")], ns_per_cycle=1.0)
    )


def test_copies_are_in_flight_from_their_load_to_the_end_of_the_wait():
    flying = flights(pipeline().lanes)
    assert list(flying["tag"].unique()) == ["copy in flight"]
    np.testing.assert_allclose(flying["end_ns"] - flying["start_ns"], 20, atol=1e-6)


def test_copies_that_overlap_get_lanes_of_their_own():
    regions = [(0, 10, "load", 0), (20, 30, "load", 1), (40, 100, "wait_data", 0), (110, 120, "wait_data", 1)]
    flying = flights(decoded(dump([warp(regions, 0, 200)])).lanes)
    assert list(flying["lane"]) == ["SM 0 CTA 0 copies 1", "SM 0 CTA 0 copies 2"]


def test_the_summary_accounts_for_all_of_a_warps_time():
    summary = summarize(pipeline())
    for role in ("loader", "computer"):
        assert sum(share.pct for share in summary.shares if share.group == role) == pytest.approx(100)
    share = {(each.group, each.tag): each for each in summary.shares}
    assert share["computer", "compute"].pct == pytest.approx(90, abs=0.1)
    assert share["computer", "wait_data"].count == 4
    assert summary.busy["compute"] == pytest.approx(90, abs=0.1)


def test_overlap_is_within_an_sm_only():
    one = [(0, 100, "load", 0)]
    other = [(0, 100, "compute", 0)]
    apart = decoded(dump([warp(one, 0, 100, sm=0), warp(other, 0, 100, sm=1)], ns_per_cycle=1.0))
    beside = decoded(dump([warp(one, 0, 100, sm=0), warp(other, 0, 100, sm=0)], ns_per_cycle=1.0))
    assert summarize(apart).overlaps[0].ns == 0
    assert summarize(beside).overlaps[0].pct_of_span == pytest.approx(100)


def test_a_saved_trace_is_read_as_lanes_and_tells_its_numbers(tmp_path):
    found = pipeline()
    told = trace_facts(found, summarize(found), {"argv": ["relay"]})
    save_lanes(tmp_path, lanes_of(found), "warps", told)
    kind, frame = read_lanes(LaneRun(tmp_path))
    assert kind == "warps"
    assert set(frame["group"]) == {"loader", "computer", "copies"}
    assert read_trace_facts(tmp_path) == json.loads(json.dumps(told))


def test_a_file_without_a_trace_tells_nothing(tmp_path):
    assert read_trace_facts(tmp_path) == {}
    (tmp_path / "lanes.parquet").write_bytes(b"PAR1")
    assert read_trace_facts(tmp_path) == {}


def test_a_stretch_of_a_trace_is_cut_and_its_numbers_are_its_own(tmp_path):
    found = pipeline()
    (tmp_path / "whole").mkdir()
    save_lanes(tmp_path / "whole", lanes_of(found), "warps", trace_facts(found, summarize(found), {"argv": ["relay"]}))
    folder = str(tmp_path / "whole")
    told = json.loads(command(folder, "--from", "0.21", "--to", "0.4", "--out", str(tmp_path / "cut"), "--json"))
    assert told["cut_ns"] == [210, 400]
    assert told["span_ns"] == pytest.approx(190)
    assert told["busy_pct"]["compute"] == pytest.approx(100 * 180 / 190)
    assert read_trace_facts(tmp_path / "cut") == {key: value for key, value in told.items() if key != "run"}
    kept = read_lanes(LaneRun(tmp_path / "cut"))[1]
    assert (kept["start_ns"].min(), kept["end_ns"].max()) == (210, 400)
    with pytest.raises(UsageError, match="nothing lies between"):
        command(folder, "--from", "9")
    for argv in (["gemm_ws", "--from", "1"], ["--to", "1", "--", "true"]):
        with pytest.raises(UsageError, match="need a recorded folder"):
            command(*argv)
    with pytest.raises(UsageError, match="writes a section"):
        command(folder, "--out", str(tmp_path / "copy"))


@pytest.mark.parametrize("told", [{}, {"span_ns": "x"}, {"span_ns": 1.0, "clock": None}, {"shares": 3}])
def test_a_folder_whose_numbers_are_damaged_is_refused(told, tmp_path):
    save_lanes(tmp_path, lanes_of(pipeline()), "warps", told)
    with pytest.raises(ReportError, match="missing or damaged"):
        command(str(tmp_path))


def test_lanes_of_streams_are_no_trace(tmp_path):
    save_lanes(tmp_path, lanes_of(pipeline()), "streams", {})
    for shows in ("dashboard", "streams"):  # the latter where there is activity to judge
        with pytest.raises(UsageError) as refused:
            command(str(tmp_path))
        assert refused.value.remedy.startswith(f"ncubble {shows}")
        (tmp_path / "activity.parquet").touch()
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="holds no trace"):
        command(str(tmp_path / "none"))


def test_the_timers_step_is_told_only_of_enough_values():
    few = decoded(dump([warp(STEP, 0, 1200), warp(STEP, 0, 1200)], ns_per_cycle=1.0))
    assert few.clock.quantum_ns is None
    many = [warp([], 96 * place, 96 * place + 960, sm=place % 2) for place in range(20)]
    assert decoded(dump(many, ns_per_cycle=1.0)).clock.quantum_ns == 96


def test_the_command_shows_a_folder_again(tmp_path):
    found = pipeline()
    save_lanes(tmp_path, lanes_of(found), "warps", trace_facts(found, summarize(found), {"argv": ["relay"]}))
    text = command(str(tmp_path), "--perfetto", str(tmp_path / "t.json"))
    assert "copy in flight" in text
    assert "nothing was lost" in text
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    command(str(tmp_path), "--perfetto", str(tmp_path / "t.pftrace"))
    assert {path[-1] for path, *_ in PerfettoTrace(tmp_path / "t.pftrace").slices} >= {"loader warp 0"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "name a kernel with a probe"),
        (["softmax_online"], "has no probe"),
        (["gemm_ws", "--", "x"], "name a kernel with a probe"),
        (["-p", "a=b", "--", "true"], "are for catalog kernels"),
        (["--", "no-such-program"], "no such program"),
        (["--", "/dev/null"], "cannot start '/dev/null'"),
        (["--timeout", "0", "--", "true"], "not a positive number"),
        (["--from", "nan", "tensor_core_gemm"], "not nan"),
        (["tensor_core_gemm", "--perfetto", "nowhere/t.json"], "no file in a folder that exists"),
        (["--perfetto", ".", "--", "true"], "no file in a folder that exists"),
    ],
)
def test_what_cannot_be_traced_is_refused(argv, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        command(*argv)


def test_a_program_that_records_nothing_is_told_how(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MeasurementError) as refused:
        command("--", "true")
    assert "BUBBLE_PROBE" in refused.value.remedy


def test_a_program_that_runs_past_its_time_is_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MeasurementError, match="exceeded --timeout"):
        command("--timeout", "0.2", "--", "sleep", "60")


def test_a_program_is_traced_by_what_it_wrote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recorded").write_bytes(dump([warp(STEP, 0, 1200)]))
    script = 'cp recorded "$NCUBBLE_TRACE"; test "$NCUBBLE_TRACE_SMS" = 7'
    told = json.loads(command("--sms", "7", "--out", "out", "--json", "--", "sh", "-c", script))
    assert told["warps"] == 1
    assert read_lanes(LaneRun(tmp_path / "out"))[1]["tag"].nunique() == 4


def test_lanes_keep_tile_and_place(tmp_path):
    found = pipeline()
    save_lanes(tmp_path, lanes_of(found), "warps", {})
    columns = pq.read_schema(tmp_path / "lanes.parquet").names
    assert {"index", "sm", "cta", "warp"} <= set(columns)
    assert isinstance(lanes_of(found), pd.DataFrame)


def test_shares_of_what_overlaps_stand_below_each_other(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = command(str(ROOT.parent / "h200-lanes/trace-gemm_ws")).splitlines()
    rows = [line for line in shown if " + " in line and line.endswith("%")]
    assert len(rows) > 5 and {len(line) for line in rows} == {len(rows[0])} and len(rows[0]) <= 80
