"""Launches of one kernel as one: what is summed, what is averaged, whose cause it has."""

from dataclasses import replace

import pytest

from ncubble.analysis.diagnosis.groups import ORDERS, LaunchGroup, groups_of, shown_and_rest
from tests.helpers.dashboard_frames import verdict


def launch(kernel="gemm", ns=1000.0, cause="data_wait", busy=50.0, **changes):
    account = {"tensor_busy": busy, "unit_busy": 0.0, "data_wait": 100.0 - busy}
    return replace(verdict(kernel, ns, cause), account=account, **changes)


def test_times_are_summed_and_accounts_averaged_by_time():
    group = LaunchGroup((launch(ns=3000.0, busy=40.0, cycles=30.0), launch(ns=1000.0, busy=80.0, cycles=10.0)))
    assert (group.verdict.duration_ns, group.verdict.cycles) == (4000.0, 40.0)
    assert group.verdict.account == pytest.approx({"tensor_busy": 50.0, "unit_busy": 0.0, "data_wait": 50.0})
    assert group.busy_pct == pytest.approx(50.0) and group.lost_ns == pytest.approx(2000.0)


def test_the_cause_is_the_one_that_most_time_has_and_places_are_those_of_its_longest_launch():
    launches = (
        launch(ns=900.0, cause="issue", launch=0),
        launch(ns=500.0, cause="data_wait", launch=1),
        launch(ns=600.0, cause="data_wait", launch=2),
    )
    assert (LaunchGroup(launches).verdict.cause, LaunchGroup(launches).verdict.launch) == ("data_wait", 2)


def test_what_no_launch_knows_stays_unknown():
    bare = replace(launch(ns=None), account=None, dram_pct=None, unit=None)
    group = LaunchGroup((bare, bare))
    assert (group.verdict.duration_ns, group.verdict.account, group.verdict.dram_pct) == (None, None, None)
    assert (group.busy_pct, group.lost_ns) == (None, 0.0)


@pytest.mark.parametrize(
    "other", [{"kernel": "copy"}, {"report": "b"}, {"label": "x=1"}, {"shape": {"m": 1}}, {"unit": "dram"}]
)
def test_another_kernel_report_label_problem_or_unit_is_another_group(other):
    launches = [launch(), replace(launch(), **other), launch(launch=1)]
    assert [len(group.launches) for group in groups_of(launches)] == [2, 1]


def test_orders_put_first_what_their_name_says():
    groups = [
        LaunchGroup((launch("a", 1000.0, busy=10.0),)),
        LaunchGroup((launch("b", 3000.0, busy=90.0),)),
        LaunchGroup((replace(launch("c", 2000.0, busy=50.0), dram_pct=99.0),)),
    ]
    groups.append(LaunchGroup((replace(launch("d", 9000.0, busy=20.0), unit="fma"),)))
    first = {name: min(groups, key=order).verdict.kernel for name, order in ORDERS.items()}
    assert first == {"time": "d", "lost": "c", "busy": "a", "dram": "c", "read": "a"}


def test_small_kernels_share_a_line_unless_they_are_few_or_a_limit_is_given():
    groups = [LaunchGroup((launch("big", 1e6),)), *(LaunchGroup((launch(f"k{n}", 100.0),)) for n in range(4))]
    shown, rest = shown_and_rest(groups, None)
    assert ([one.verdict.kernel for one in shown], len(rest)) == (["big"], 4)
    assert [len(part) for part in shown_and_rest(groups[:4], None)] == [4, 0]
    assert [len(part) for part in shown_and_rest(groups, 2)] == [2, 3]
