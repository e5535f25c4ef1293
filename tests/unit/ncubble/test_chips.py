"""A chip is one record: what is written there is all that metric sets, roofs, limits and diagnosis
need to know it."""

from importlib.resources import files

import pytest

from ncubble import chips
from ncubble.analysis.model.roofs import Subject, roofs
from ncubble.chips import Version, chip_of, generation_of, load_chips, parse_chips, parse_version, sms_of
from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.run.device import occupancy
from ncubble.profiling.metrics.metrics import Target, resolve

SHIPPED = (files("ncubble") / "chips.toml").read_text(encoding="utf-8")
NEW = """
[[chips]]
capability = "42.0"
generation = "gb100"
products = [{ name = "X1000", sms = 200 }]
limits = { warps = 64, ctas = 32, smem_KiB = 512 }
flop_per_clock_sm = { fp32 = 512, tensor_fp16 = 16384 }
mma_flop_per_clock_sm = { "mma.sync" = 4096.0, wgmma = 16384.0 }
"""


@pytest.fixture
def new_chip(monkeypatch):
    known = parse_chips(SHIPPED + NEW)
    monkeypatch.setattr(chips, "load_chips", lambda: known)
    return Version(42, 0)


def test_a_new_record_gives_metrics_under_the_names_of_its_generation(new_chip):
    metrics = resolve(["tensor"], target=Target(new_chip, Version(2026, 3))).metrics
    assert metrics == resolve(["tensor"], target=Target(Version(10, 0), Version(2026, 3))).metrics
    assert "sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active" in metrics


def test_a_new_record_gives_roofs(new_chip):
    launch = Subject(
        {"device__attribute_multiprocessor_count": 200.0},
        1e6,
        2e9,
        dtype="float16",
        tensor_pct=50.0,
        compute_capability=str(new_chip),
    )
    found = roofs(launch)
    assert found["FP32"][0] == pytest.approx(512 * 200 * 2e9 / 1e12)
    assert found["tensor FP16"][0] == pytest.approx(16384 * 200 * 2e9 / 1e12, rel=1e-4)


def test_a_new_record_gives_limits_and_sizes(new_chip):
    assert occupancy(new_chip, 256, 64, 200 * 1024).ctas == 2
    assert chips.largest_cta_smem() == 511 * 1024
    assert sms_of("X1000") == 200


def test_a_new_record_says_what_its_slow_tensor_path_costs(new_chip):
    assert chip_of(new_chip).slow_mma_share == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("capability", "fast", "petaflops"), [("9.0", "wgmma", 0.99), ("10.0", "tcgen05", 2.25), ("12.0", "", 0.21)]
)
def test_rates_make_the_peaks_of_products(capability, fast, petaflops):
    """Dense half precision of an H100, a B200 and a RTX 5090, by their SMs and clocks."""
    sms_ghz = {"9.0": (132, 1.83), "10.0": (148, 1.86), "12.0": (170, 2.407)}[capability]
    chip = chip_of(capability)
    assert chip.fast_mma == fast
    assert chip.flop_per_clock_sm["tensor_fp16"] * sms_ghz[0] * sms_ghz[1] / 1e6 == pytest.approx(petaflops, rel=0.01)


def test_what_a_record_does_not_state_is_not_known():
    old = chip_of("7.0")
    assert old.generation == "gv100" and old.limits is None and old.copy_latency is None and not old.flop_per_clock_sm
    assert old.slow_mma_share == 0.0
    assert generation_of(Version(8, 7)) is None and generation_of(None) is None
    with pytest.raises(MeasurementError, match=r"of compute capability 7\.0 are not known"):
        chips.limits_of("7.0")
    with pytest.raises(KeyError):
        sms_of("GB300")


@pytest.mark.parametrize("capability", ["", "9", "9.0.1", "nine", "99.0", None])
def test_an_unknown_capability_has_no_chip(capability):
    assert chip_of(capability) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[chips]", "chips.toml"),
        (SHIPPED + '[[chips]]\ncapability = "9.9"\nsockets = 3\n', "sockets"),
        (SHIPPED + '[[chips]]\ngeneration = "gz100"\n', "capability"),
        (SHIPPED + '[[chips]]\ncapability = "9.9"\nlimits = { warps = 4 }\n', "ctas"),
    ],
)
def test_a_malformed_record_is_refused(text, expected):
    with pytest.raises(UsageError, match=expected):
        parse_chips(text)


def test_the_figures_of_an_h200():
    chip = chip_of("9.0")
    assert chip.limits.cta_smem == 227 * 1024 and sms_of("H200") == 132
    assert load_chips()[parse_version("9.0")] is chip and chip.architecture == "Hopper"
