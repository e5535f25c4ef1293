"""The names of counters by chip and version are valid data, and agree with the metric sets."""

import pytest

from ncubble.analysis.report.frames import short_name
from ncubble.chips import Version, generation_of, generations, load_chips
from ncubble.profiling.metrics.generations import Unit, load_generations, series_names
from ncubble.profiling.metrics.metrics import Target, load_sets, resolve
from ncubble.records import WrongFieldError, typed


def test_the_shipped_file_loads_and_is_no_metric_set():
    found = load_generations()
    assert {"tensor", "fma", "dram", "l2"} <= {unit.name for unit in found.units}
    assert {"duration", "cycles", "sm_clock", "ldgsts", "tma"} <= set(found.quantities)
    assert "generations" not in load_sets()


@pytest.mark.parametrize("capability", [chip.capability for chip in load_chips().values() if chip.generation])
def test_the_set_that_a_unit_names_collects_it_on_every_chip_that_has_the_unit(capability):
    target = Target(capability, Version(2025, 3))
    for unit in load_generations().units:
        if not unit.set or not unit.on(generation_of(capability)):
            continue
        stems = {name.split(".")[0] for name in resolve([unit.set], target=target).metrics}
        assert stems & set(unit.counters), (unit.name, capability)


@pytest.mark.parametrize("quantity", ["duration", "cycles", "sm_clock", "ldgsts", "samples"])
def test_the_default_sets_collect_the_first_name_of_a_quantity(quantity):
    collected = resolve(["pipeline", "source"], target=Target(Version(9, 0), Version(2025, 3))).metrics
    assert load_generations().quantities[quantity][0] in collected


@pytest.mark.parametrize("prefix", ["pmsampling:", "TPC.TriageCompute.", "FBSP.TriageSCG.", "SM_A.TriageAC."])
def test_a_series_has_one_short_name_in_every_spelling(prefix):
    for counter, short in series_names().items():
        assert short_name(f"{prefix}{counter}.avg.pct_of_peak_sustained_elapsed") == short


def test_gaps_tell_the_chip_from_the_version_and_unknown_from_old():
    gap = load_generations().gaps["timeline"]
    assert "7.0" in gap.of_chip(Version(7, 0)) and not gap.of_chip(Version(7, 5)) and not gap.of_chip(None)
    assert "2023.2" in gap.of_ncu(Version(2023, 2)) and not gap.of_ncu(Version(2024, 1)) and not gap.of_ncu(None)


def test_the_first_ncu_with_pm_sampling_is_that_of_the_set_timeline():
    assert load_generations().gaps["timeline"].ncu == load_sets()["timeline"].since["PmSampling"]


def test_the_first_chip_with_asynchronous_copies_is_that_of_the_set_async():
    first = {metric.name: metric.min_cc for metric in load_sets()["async"].metrics}
    for name in ("ldgsts", "tma"):
        assert load_generations().gaps[name].cc == first[load_generations().quantities[name][0]]


def test_the_shipped_file_is_consistent():
    found = load_generations()
    counters = [counter for own in found.timeline.series.values() for counter in own]
    for names in ([unit.name for unit in found.units], counters):
        assert len(names) == len(set(names))
    for unit in found.units:
        assert set(unit.chips) <= generations() and set(unit.directions) <= set(unit.counters), unit.name
        assert unit.series in ("", *found.timeline.series), unit.name
    assert all(gap.cc or gap.ncu for gap in found.gaps.values())


@pytest.mark.parametrize(
    "change", [{"kind": "magic"}, {"colour": "red"}, {"counters": ["sm__x.avg"]}, {"counters": []}, {"series": 1}]
)
def test_a_wrong_word_in_a_unit_is_refused(change):
    unit = {"name": "x", "kind": "pipe", "set": "tensor", "counters": ["sm__x"]}
    assert typed(unit, Unit).counters == ("sm__x",)
    with pytest.raises(WrongFieldError):
        typed(unit | change, Unit)
