"""Rings of buffers, read off the code of measured and of small kernels."""

from __future__ import annotations

import pytest

from benchmarks.validation.store import TruthLaunch, stored
from ncubble.analysis.account.evidence import evidence
from ncubble.analysis.account.rings import Ring, rings_of, together
from ncubble.analysis.report.report import Launch, Report
from ncubble.recordings import ROOT, VALIDATION
from tests.helpers.sass_frames import kernel


def read(launch: Launch) -> list[Ring]:
    """The rings of a recorded launch."""
    found = evidence(launch)
    return rings_of(launch.source, found.grid, found.block)


@pytest.fixture(scope="module")
def truth() -> list[TruthLaunch]:
    return list(stored(VALIDATION / "truth", "learn"))


def test_the_code_says_the_depth_of_every_launch_of_a_sweep(truth: list[TruthLaunch]) -> None:
    known = {f"{one.name} {one.gpu}": (one, one.stages or one.launch.declared.get("stages")) for one in truth}
    wrong = {name: (ring.stages, stages) for name, (one, stages) in known.items()
             if stages and (ring := together(read(one.launch))) and ring.stages != stages}  # fmt: skip
    assert sum(bool(stages) for _, stages in known.values()) >= 148
    assert not wrong


@pytest.mark.parametrize(
    ("name", "fills", "tile_B"),
    [
        ("tma_square_s3", 64.0, 32768.0),  # each warp runs the copy of its elected thread
        ("tma_s4", 64.0, 32768.0),
        ("ws", 256.0, 49152.0),
        ("dsmem", 128.0, 33792.0),
        ("copy_pipeline", 8192 / 2112, 32768.0),
        ("d64_s3", 64.0, 16384.0),  # a tile of K and of V
    ],
)
def test_fills_and_bytes(name: str, fills: float, tile_B: float, truth: list[TruthLaunch]) -> None:  # noqa: N803
    ring = together(read(next(one.launch for one in truth if one.name == name)))
    assert ring is not None
    assert (ring.iterations, ring.tile_B) == (pytest.approx(fills, rel=0.001), tile_B)


def test_k_and_v_of_cudnn_are_two_rings(truth: list[TruthLaunch]) -> None:
    rings = read(next(one.launch for one in truth if one.name == "cudnn_d128"))
    assert [(ring.copies, ring.stages, ring.tile_B, len(ring.rows)) for ring in rings] == [("tma", 2, 32768.0, 2)] * 2
    assert not set(rings[0].waits) & set(rings[1].waits)
    both = together(rings)
    assert (both.stages, both.tile_B, both.iterations) == (2, 65536.0, rings[0].iterations)
    assert "(2 parallel rings)" in both.evidence


def test_a_ring_that_k_and_v_share_is_one() -> None:
    for variant, fills in (("default", 992.97), ("cp_async", 128.0)):
        (ring,) = read(Report.open(ROOT / "attention_fwd" / variant).launch(0))
        assert (ring.stages, ring.iterations) == (4, pytest.approx(fills))


LOAD, STORE, MMA, MEET = (
    "LDG.E.128 R4, [R2.64]",
    "STS.128 [R8], R4",
    "HMMA.16816.F32 R12, R16, R20, R12",
    "BAR.SYNC 0x0",
)


@pytest.mark.parametrize("times", [1, 4])
def test_an_unrolled_loop_of_plain_loads_has_as_many_tiles(times: int) -> None:
    (ring,) = rings_of(kernel(*[LOAD, STORE, MEET, MMA, MEET] * times), 25.0, 1.0)
    assert (ring.copies, ring.stages, ring.iterations, ring.tile_B) == ("plain", 1, 4.0 * times, 512.0)


def test_plain_stores_that_wait_for_no_warp_go_to_another_buffer() -> None:
    (ring,) = rings_of(kernel(LOAD, STORE, MEET, MMA), 25.0, 1.0)
    assert ring.stages == 2


@pytest.mark.parametrize(
    ("ahead", "wait", "stages"),
    [
        (0, "DEPBAR.LE SB0, 0x0", 1),
        (2, "DEPBAR.LE SB0, 0x1", 3),
        (2, "DEPBAR.LE SB0, 0x2", 3),  # waits behind its own copies
        (7, "DEPBAR.LE SB0, 0x1", 3),  # and copies of an operand that stays
    ],
)
def test_depth_by_groups_of_copies(ahead: int, wait: str, stages: int) -> None:
    copy = ["LDGSTS.E.BYPASS.128 [R2], [R4.64]", "LDGDEPBAR"]
    frame = kernel(*copy * ahead, wait, MMA, *copy, executed=[1.0] * 2 * ahead + [64.0] * 4)
    (ring,) = rings_of(frame, 1.0, 1.0)
    assert (ring.stages, ring.preloaded, ring.iterations) == (stages, ahead, 64.0)
    assert ring.evidence


def test_where_the_code_says_nothing_there_is_no_depth() -> None:
    (ring,) = rings_of(kernel("UTMALDG.2D [UR8], [UR4]", MMA), 1.0, 1.0)
    assert ring.stages is None
    assert rings_of(kernel(MMA), 1.0, 1.0) == []
    assert rings_of(kernel(LOAD, STORE, executed=[float("nan")] * 2), 1.0, 1.0) == []
    assert together([]) is None
