"""Warps that hold nothing up take no share of idle time: in small kernels, and in recorded
warp-specialized ones."""

import pytest

from ncubble.analysis.account.account import account
from ncubble.analysis.account.stalls import classify
from ncubble.analysis.report.report import Report
from ncubble.recordings import H100, ROOT
from ncubble.sass.bystanders import homes
from tests.unit.analysis.account.test_stalls import classes, kernel

WAIT = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+URZ], R4"
TMA = "UTMALDG.2D [UR12], [UR4]"
WGMMA = "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24"
COPY = "LDGSTS.E.BYPASS.128 [R2], [R4.64]"


def recorded(*path, root=ROOT):
    report = Report.open(root.joinpath(*path))
    return report.launch(0).source, account(report.launch(0))


@pytest.mark.parametrize(("next_one", "part"), [(TMA, "aside"), (WGMMA, "data_wait"), ("LDS R1, [R2]", "data_wait")])
def test_a_repeated_wait_is_that_of_the_code_which_it_returns_to(next_one, part):
    frame = kernel(
        WAIT,
        "@!P0 BRA 0x7f00000000a0",
        next_one,
        "EXIT",
        "YIELD",
        (WAIT, "branch_resolving", 2),
        ("@!P0 BRA 0x7f00000000a0", "long_scoreboard", 7),
        "BRA 0x7f0000000010",
    )
    assert classes(frame.assign(branch_resolving=0.0)) == {part: 7}
    assert homes(frame["sass"].tolist(), frame["opcode"].tolist()) == [0, 1, 2, 3, 1, 1, 1, 1]


def test_a_wait_that_sleeps_between_its_checks_is_the_same_wait():
    code = [
        WAIT,
        "@!P0 BRA 0xa0",
        TMA,
        "EXIT",
        WAIT,
        "@!P0 NANOSLEEP.SYNCS 0x989680",
        "@!P0 SYNCS.PHASECHK.TRANS64 P0, [R3], R4",
    ]
    frame = kernel(*code, "@!P0 BRA 0xa0", "BRA 0x10")
    assert homes(frame["sass"].tolist(), frame["opcode"].tolist()) == [0, 1, 2, 3, 1, 1, 1, 1, 1]


def test_a_jump_without_a_check_before_it_is_no_repetition():
    sass = ["BRA 0x10", "FADD R1, R2, R3", "@P0 BRA 0x10"]
    assert homes(sass, ["BRA", "FADD", "BRA"]) == [0, 1, 2]


def test_waits_that_repeat_often_are_not_the_main_loop():
    frame = kernel(
        WGMMA,
        "@!P1 BRA 0x10",
        ("IADD3 R1, R1, 0x1, RZ", "wait", 3),
        "UTMASTG.2D [UR8], [UR6]",
        "EXIT",
        WAIT,
        "@!P0 BRA 0x10",
        executed=[100, 100, 5, 5, 5, 900, 900],
    )
    assert classes(frame) == {"epilogue": 3}


@pytest.mark.parametrize(
    ("loader", "part"),
    [([COPY], "aside"), ([COPY, "LDS R1, [R2]", WGMMA], "data_wait")],
)
def test_a_loader_waits_for_a_slot_and_warps_that_also_compute_wait_for_data(loader, part):
    frame = kernel(WAIT, ("@!P0 BRA 0x0", "long_scoreboard", 6), *loader, "EXIT", "LDS R1, [R2]", WGMMA, "EXIT")
    assert classes(frame) == {part: 6}


@pytest.mark.parametrize(
    ("stored", "computing", "part"),
    [
        ("R8", ["FADD R1, R2, R3", "STS [R9], R1"], "aside"),  # a storer of what others compute
        ("R8", [], "data_wait"),  # nothing is computed: a copy through shared memory
        ("R9", ["FADD R1, R2, R3", "STS [R9], R1"], "data_wait"),  # computes from what it read
    ],
)
def test_a_storer_comes_behind_the_warps_that_compute(stored, computing, part):
    frame = kernel(
        WAIT,
        ("@!P0 BRA 0x0", "long_scoreboard", 6),
        "LDS R8, [R2]",
        "FADD R9, R8, R8",
        f"STG.E [R4.64], {stored}",
        "EXIT",
        *computing,
        "EXIT",
    )
    assert classes(frame) == {part: 6}


@pytest.mark.parametrize(("behind", "part"), [(["CCTL.IVALL", "EXIT"], "aside"), (["LDS R1, [R2]"], "sync_wait")])
def test_a_warp_at_the_last_barrier_has_no_work_left(behind, part):
    assert classes(kernel(WGMMA, ("UCGABAR_WAIT", "barrier", 8), *behind, "EXIT")) == {part: 8}


def test_an_mma_before_a_full_queue_waits_for_the_mmas_in_it():
    assert classes(kernel("LDS R1, [R2]", WGMMA, (WGMMA, "mio_throttle", 4))) == {"unit": 4}


def test_the_wait_for_the_last_mma_is_no_epilogue_and_that_for_the_last_store_is():
    frame = kernel(
        WGMMA,
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", "barrier", 5),
        "UTMASTG.2D [UR8], [UR6]",
        "DEPBAR.LE SB0, 0x0",
        ("EXIT", "long_scoreboard", 2),
        executed=[100, 1, 1, 1, 1],
    )
    assert classes(frame) == {"unit": 5, "epilogue": 2}


@pytest.mark.parametrize("run", [("gemm_ws", "default"), ("gemm_ws", "pingpong"), ("cluster_dsmem", "multicast")])
def test_warps_at_the_end_of_a_cluster_are_not_waits_of_the_steady_state(run):
    source, found = recorded(*run)
    last = source["opcode"].str.startswith("UCGABAR_WAIT").to_numpy()
    assert source.loc[last, "barrier"].sum() > 0.15 * source["samples"].sum()
    assert found.weights.loc[last, "aside"].sum() >= source.loc[last, "barrier"].sum() * 0.99
    assert found.parts["sync_wait"] < 1.5


@pytest.mark.parametrize(("run", "line"), [("slots1", 52), ("slots1", 93), ("slots2", 52), ("slots2", 93)])
def test_loader_and_storer_of_the_specialized_copy_hold_nothing_up(run, line):
    """Lines of ``load_tiles`` and ``store_tiles`` at which they wait for a free slot, and for
    results."""
    source, found = recorded("warp_specialized", run, root=H100)
    here = (source["line"] == line) & source["file"].str.endswith("warp_specialized.cu")
    here |= here.shift(-2, fill_value=False) & (source["line"] == 87)  # the branch of an inlined wait
    assert found.weights.loc[here, "data_wait"].sum() <= 0.01 * source["samples"].sum()


def test_the_starving_computing_warps_remain_data_wait():
    parts = {run: recorded("warp_specialized", run, root=H100)[1].parts["data_wait"] for run in ("slots1", "slots2")}
    assert parts["slots1"] > 25.0 > 15.0 > parts["slots2"]


def test_no_sample_of_a_recording_is_lost(tmp_path):
    source, found = recorded("gemm_ws", "pingpong")
    assert classify(source).to_numpy().sum() == source["samples"].sum()
    assert 0 < found.weights.to_numpy().sum() <= source["samples"].sum()
