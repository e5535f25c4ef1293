"""The names of counters by chip and version are valid data, and agree with the metric sets."""

import copy
import tomllib
from importlib.resources import files

import pytest

from ncubble.analysis.report.frames import short_name
from ncubble.chips import Version, generation_of, load_chips
from ncubble.errors import UsageError
from ncubble.profiling.metrics.generations import load_generations, parse_generations
from ncubble.profiling.metrics.metrics import Target, load_sets, resolve

SHIPPED = tomllib.loads((files("ncubble.profiling.metrics.sets") / "generations.toml").read_text(encoding="utf-8"))


def test_the_shipped_file_loads_and_is_no_metric_set():
    found = load_generations()
    assert {"tensor", "fma", "dram", "l2"} <= {unit.name for unit in found.units}
    assert {"duration", "cycles", "sm_clock", "ldgsts", "tma"} <= set(found.quantities)
    assert "generations" not in load_sets()


@pytest.mark.parametrize("capability", [chip.capability for chip in load_chips().values() if chip.generation])
def test_the_set_that_a_unit_names_collects_it_on_every_chip_that_has_the_unit(capability):
    target = Target(capability, Version(2025, 3))
    for unit in load_generations().units:
        if not unit.on(generation_of(capability)):
            continue
        stems = {name.split(".")[0] for name in resolve([unit.set], target=target).metrics}
        assert stems & set(unit.counters), (unit.name, capability)


@pytest.mark.parametrize("quantity", ["duration", "cycles", "sm_clock", "ldgsts", "samples"])
def test_the_default_sets_collect_the_first_name_of_a_quantity(quantity):
    collected = resolve(["pipeline", "source"], target=Target(Version(9, 0), Version(2025, 3))).metrics
    assert load_generations().quantities[quantity][0] in collected


@pytest.mark.parametrize("prefix", ["pmsampling:", "TPC.TriageCompute.", "FBSP.TriageSCG.", "SM_A.TriageAC."])
def test_a_series_has_one_short_name_in_every_spelling(prefix):
    for counter, short in load_generations().series.items():
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


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda t: t.pop("ratios"), "missing tables"),
        (lambda t: t.update(extra={}), "extra"),
        (lambda t: t["units"][0].update(kind="magic"), "kind 'magic'"),
        (lambda t: t["units"][0].update(chips=["gx1"]), "unknown chips"),
        (lambda t: t["units"][0].update(colour="red"), "colour"),
        (lambda t: t["units"][0].update(series="nowhere"), "nowhere"),
        (lambda t: t["units"][0].update(counters=["sm__x.avg"]), "no rollup"),
        (lambda t: t["units"][0].update(directions={"sm__y": ["sm__a", "sm__b"]}), "does not have"),
        (lambda t: t["units"].append(t["units"][0]), "repeated"),
        (lambda t: t["quantities"].update(duration=["time"]), "must all be metric names"),
        (lambda t: t["quantities"].update(duration=[]), "must all be metric names"),
        (lambda t: t["ratios"].update(cta_share=[["sm__a.avg"]]), "pairs"),
        (lambda t: t["timeline"].update(prefixes=["("]), "regular expression"),
        (lambda t: t["timeline"]["series"].update(again=["sm__cycles_active"]), "repeated"),
        (lambda t: t["gaps"][0].update(source=""), "and a source"),
        (lambda t: t["gaps"][0].update(cc="new"), "not a version"),
        (lambda t: t["gaps"][2].pop("cc"), "needs a capability or an ncu version"),
    ],
)
def test_a_malformed_file_is_refused_naming_what_is_wrong(change, complaint):
    table = copy.deepcopy(SHIPPED)
    change(table)
    with pytest.raises(UsageError, match=complaint):
        parse_generations(table)
