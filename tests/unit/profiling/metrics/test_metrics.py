"""Metric sets are valid, resolve per chip and version, and take the names that people write."""

import pytest

from ncubble.chips import Version, generations, parse_version
from ncubble.errors import UsageError
from ncubble.profiling.metrics.metrics import DEFAULT_SETS, Target, load_aliases, load_sets, resolve

H200 = Target(Version(9, 0), Version(2025, 3))
A100 = Target(Version(8, 0), Version(2025, 3))


def test_every_shipped_set_loads_and_explains_itself():
    sets = load_sets()
    assert {"async", "tensor", "dram", "pipeline", "stalls", "timeline", "source", "full"} <= set(sets)
    for member in sets.values():
        names = [metric.name for metric in member.metrics]
        assert len(names) == len(set(names)) and (names or member.include or member.sections or member.ncu_set)
        assert {*member.since, *member.slim} <= set(member.sections)
        assert not any(sets[included].include for included in member.include)
        for metric in member.metrics:
            assert {*metric.chips, *metric.only} <= generations(), metric.name
            assert metric.about.endswith("."), metric.name
            assert "." in metric.name or ":" in metric.name or metric.name.startswith(("smsp__pcsamp", "inst_")), (
                metric.name
            )


def test_pipeline_is_the_union_of_its_parts_and_launch_data():
    selection = resolve(["pipeline"], target=H200)
    for part in ("async", "tensor", "dram", "stalls"):
        assert set(resolve([part], target=H200).metrics) <= set(selection.metrics)
    assert selection.sections == ("LaunchStats", "Occupancy")


def test_a_metric_of_two_sets_is_asked_for_once():
    metrics = resolve(["tensor", "dram"], target=H200).metrics
    assert metrics.count("gpu__time_duration.sum") == 1


def test_default_sets_name_what_the_account_cannot_do_without():
    required = resolve(DEFAULT_SETS, target=H200).required
    assert "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed" in required
    assert "sm__cycles_elapsed.max" in required


def test_metrics_that_a_chip_lacks_are_left_out():
    ampere, hopper = (
        resolve(["async", "tensor"], target=A100).metrics,
        resolve(["async", "tensor"], target=H200).metrics,
    )
    assert "smsp__inst_executed_op_tma_ld.sum" in hopper
    assert "sm__ops_path_tensor_src_fp8.sum" in hopper
    assert not [name for name in ampere if "tma" in name or "gmma" in name or "fp8" in name]
    assert "sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active" not in hopper


def test_a_counter_takes_the_name_of_the_chip():
    old, new = "sm__inst_executed_pipe_fp16", "sm__inst_executed_pipe_fma_type_fp16"
    suffix = ".avg.pct_of_peak_sustained_active"
    assert old + suffix in resolve(["tensor"], target=A100).metrics
    assert new + suffix in resolve(["tensor"], target=H200).metrics


def test_an_unknown_chip_gets_the_names_as_written():
    assert "smsp__inst_executed_op_tma_ld.sum" in resolve(["async"]).metrics


def test_sections_that_an_old_ncu_lacks_are_left_out_with_a_note():
    selection = resolve(["warp_states"], target=Target(Version(9, 0), Version(2024, 1)))
    assert selection.sections == ("SchedulerStats", "WarpStateStats")
    assert any("PmSampling_WarpStates skipped" in note for note in selection.notes)


@pytest.mark.parametrize(
    ("written", "real"),
    [
        ("pipe_lsu_mem_global_op_ld.async", "smsp__inst_executed_op_ldgsts.sum"),
        ("smsp__pipe_tensor_cycles_active", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
        ("sm__throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    ],
)
def test_informal_names_resolve_with_a_note(written, real):
    selection = resolve([], [written], H200)
    assert selection.metrics == (real,)
    assert any(written in note and real in note for note in selection.notes)


def test_the_hmma_counter_is_kept_where_the_chip_has_it():
    name = "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"
    kept = resolve([], [name], H200)
    assert (kept.metrics, kept.notes) == ((name,), ())
    assert "_v2" in resolve([], [name], Target(Version(8, 9))).metrics[0]


def test_a_well_formed_foreign_metric_is_passed_on_with_a_note():
    selection = resolve([], ["lts__t_tag_requests.sum"], H200)
    assert selection.metrics == ("lts__t_tag_requests.sum",)
    assert "no set of ncubble" in selection.notes[0]


def test_unknown_set_names_the_nearest():
    with pytest.raises(UsageError, match=r"unknown metric set 'tensors'.*tensor"):
        resolve(["tensors"])


@pytest.mark.parametrize(
    "name", ["dram_bytes_read", "", "sm__a.sum,sm__b.sum", "sm__x.sum --export /etc/passwd", "$(id)"]
)
def test_what_cannot_be_a_metric_is_refused(name):
    with pytest.raises(UsageError, match="unknown metric"):
        resolve([], [name])


def test_misspelt_metric_names_the_nearest():
    with pytest.raises(UsageError, match=r"dram__bytes_read\.sum"):
        resolve([], ["dram_bytes_read.sum"])


def test_a_metric_that_the_chip_lacks_is_refused_when_named():
    with pytest.raises(UsageError, match=r"not available on compute capability 8\.0"):
        resolve([], ["smsp__inst_executed_op_tma_ld.sum"], A100)


def test_nothing_to_collect_is_refused():
    with pytest.raises(UsageError, match="nothing to collect"):
        resolve([])


def test_aliases_lead_to_names_that_resolve():
    for alias in load_aliases().values():
        assert resolve([], [alias.metric], H200).metrics, alias.name


def test_versions_are_read_or_refused():
    assert parse_version("2025.3.1.0 (build 7)") == (2025, 3)
    with pytest.raises(UsageError, match="not a version"):
        parse_version("nine")
