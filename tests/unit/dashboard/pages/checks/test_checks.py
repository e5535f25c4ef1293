"""The Checks page: its addresses, its figure, lasting changes and its states, over made-up and odd
histories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import plotly.io
import pytest
from msgspec.structs import replace

from ncubble.analysis.account.palette import VERDICT_STYLES, contrast
from ncubble.analysis.gate import history as gate_history
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.history import FILE, KeptMetric, Point, append, kept, of_metric, read
from ncubble.analysis.gate.trend import series_of
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.dashboard.app.app import open_server
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import ChecksAddress
from ncubble.dashboard.pages.checks import figures
from ncubble.dashboard.pages.checks import layout as checks
from ncubble.dashboard.pages.checks.figures import HEIGHT, amount, commit, fails, marks, spread, style_of, trend_figure
from ncubble.dashboard.pages.checks.layout import changes, in_words
from ncubble.dashboard.ui.components import near
from ncubble.errors import UsageError
from ncubble.recordings import CHECKS, FULL, ROOT
from tests.helpers import dashboard_frames as frames
from tests.helpers.dashboard_frames import texts
from tests.helpers.gate_frames import STEADY_CYCLES, gemm, groups, recorded, report

WHEN = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
KEY = "0123456789abcdef"
GIT = {"git": {"sha": "a" * 40, "dirty": False}}
SINCE = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
HOSTILE = "<b>x</b>"
BASELINES = recorded(report(), report(kernel=gemm(4)))


def add(folder: Path, day: int, *reports: Any, errors: Any = ()) -> None:
    """One check of these reports, ``day`` days after the first."""
    result = check(groups(*reports), BASELINES, CheckOptions(), errors)
    append(folder, kept(result, ["runs/new"], checked=WHEN + timedelta(days=day)))


def run(tensor: float = 43.0, stages: int = 3, **more: Any) -> Any:
    """A report of five launches; that of three stages is among the made-up reports of the
    dashboard, too."""
    values = [tensor + 0.01 * i for i in range(5)]
    key = KEY if stages == 3 else f"{stages:016x}"
    return report(values, STEADY_CYCLES, kernel=gemm(stages), key=key, manifest=GIT, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two kernels over five checks: one that passes, one that regresses at last; and launches of
    another GPU."""
    for day, tensor in enumerate((43.0, 43.02, 42.98, 43.01, 40.0)):
        add(tmp_path, day, run(tensor), run(43.0, 4))
    add(tmp_path, 5, run(device="NVIDIA A100-SXM4-40GB"))
    return tmp_path


def store(folder: Path, tmp_path: Path) -> ReportStore:
    """The made-up reports beside a history."""
    opened = frames.store(tmp_path)
    opened.checks = folder
    return opened


def page(folder: Path, tmp_path: Path, search: str = "") -> str:
    return " ".join(texts(checks.layout(store(folder, tmp_path), ChecksAddress.parse(search))))


def trend(folder: Path, metric: str = "tensor_elapsed_pct", even: bool = False) -> Any:
    known = read(folder)
    return trend_figure(of_metric(known.kernels[0].recent, metric), even)


def trace(figure: Any, name: str) -> Any:
    return next(one for one in figure.data if one.name == name and one.showlegend is not False)


def test_the_figure_draws_values_spread_baseline_and_threshold(folder: Path) -> None:
    figure = trend(folder)
    bad = trace(figure, "regressed")
    assert list(bad.y) == [pytest.approx(40.02)] and list(bad.error_y.array) == [pytest.approx(0.0158, abs=1e-3)]
    assert len(trace(figure, "pass").x) == 4 and bad.marker.symbol == VERDICT_STYLES["regressed"].symbol
    line = trace(figure, "fails below")
    assert 42.0 < line.y[0] < trace(figure, "baseline ± standard deviation").y[0] == pytest.approx(43.0)
    named = [note.text for note in figure.layout.annotations]
    assert named[0] == "baseline 43.00 %" and named[1].startswith("fails below 42.7")
    assert "aaaaaaaaaa" in bad.text[0] and "change -6.93 %" in bad.text[0] and "ncu " in bad.text[0]


def test_larger_is_worse_for_cycles_and_time_has_no_threshold(folder: Path) -> None:
    figure = trend(folder, "cycles", even=True)
    line = trace(figure, "fails above")
    assert line.y[0] > trace(figure, "baseline ± standard deviation").y[0]
    assert list(trace(figure, "pass").x) == [1, 2, 3, 4, 5]
    times = trend(folder, "duration_ns")
    assert not [one for one in times.data if one.name and one.name.startswith("fails")]
    assert "µs" in times.layout.yaxis.title.text


def test_a_check_without_a_value_is_marked_below(folder: Path) -> None:
    add(folder, 6, run(ncu_version="2026.1"))
    add(folder, 7, run(40.0))
    figure = trend(folder)
    below = trace(figure, "not comparable")
    assert below.yaxis == "y2" and "different ncu" in below.text[0]
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]


def test_a_single_check_is_a_figure_too(tmp_path: Path) -> None:
    add(tmp_path, 0, run())
    figure = trend(tmp_path)
    x = trace(figure, "baseline ± standard deviation").x
    assert x[1] > x[0] and figure.layout.xaxis.range[0] < trace(figure, "pass").x[0] < figure.layout.xaxis.range[1]


def test_the_baseline_moves_where_it_was_recorded_anew(folder: Path) -> None:
    known = recorded(report([40.0, 40.05, 39.95, 40.0, 40.01], STEADY_CYCLES))
    result = check(groups(run(40.0)), known, CheckOptions())
    append(folder, kept(result, checked=WHEN + timedelta(days=9)))
    found = read(folder)
    kernel = found.find(found.kernels[0].kernel, "nvidia-h200")
    assert kernel is not None and kernel.verdict == "pass"
    steps = trace(trend_figure(of_metric(kernel.recent, "tensor_elapsed_pct")), "fails below").y
    assert steps[0] > 42 and steps[-1] < 40


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    name = frames.HOSTILE
    found = report([43.0] * 5, kernel={}, functions=name, key=KEY)
    hostile = kept(check(groups(found), BASELINES, CheckOptions()), [name])
    texts_of = dict.fromkeys(("id", "device", "reason", "git_sha", "verdict", "ncu_version"), name)
    metric = KeptMetric(name="cycles", mean=1.0, verdict=name, reason=name, unit=name)
    kernel = replace(hostile.kernels[0], metrics=(metric,), **texts_of)
    append(tmp_path, replace(hostile, kernels=(kernel,)))
    known = read(tmp_path)
    (one,) = known.kernels
    address = ChecksAddress(one.kernel, one.gpu)
    assert ChecksAddress.parse(address.query()) == address
    figure = trend_figure(of_metric(one.recent, "cycles"))
    assert "<img" not in plotly.io.to_json(figure.checked)
    assert frames.HOSTILE[:30] in page(tmp_path, tmp_path / "r", address.href().partition("?")[2])


def test_the_page_names_the_chosen_kernel_and_links_to_loaded_runs(folder: Path, tmp_path: Path) -> None:
    kernel = read(folder).kernels[0].kernel
    said = page(folder, tmp_path / "reports", f"kernel={kernel}&gpu=nvidia-h200")
    assert "Regressed at the last check, 2026-11-05 12:00 UTC: tensor pipe active 40.02 % against 43.00 %" in said
    built = frames.sent(checks.layout(store(folder, tmp_path / "again"), ChecksAddress(kernel)))
    assert f'"href": "/kernel/{KEY}/0"' in built


def test_without_a_choice_the_page_says_how_many_regressed_and_shows_the_first(folder: Path, tmp_path: Path) -> None:
    said = page(folder, tmp_path / "reports", "")
    assert "1 of 3 kernels failed, tensor_core_gemm stages=3" in said and "another H200" not in said
    assert "Regressed at the last check, 2026-11-05" in said
    assert "They ran on another H200" in page(CHECKS, tmp_path / "again", "")


def test_a_metric_that_is_not_there_is_said(folder: Path, tmp_path: Path) -> None:
    kernel = read(folder).kernels[0].kernel
    assert "no check of this kernel holds this metric" in page(folder, tmp_path / "r", f"kernel={kernel}&metric=power")
    assert "has no check of this kernel" in page(folder, tmp_path / "s", "kernel=unknown")


def test_without_history_the_page_says_how_to_record_one_and_where_it_looked(tmp_path: Path) -> None:
    said = page(tmp_path / "none", tmp_path / "r")
    assert "ncubble baseline" in said and "ncubble check" in said and near(tmp_path / "none") in said


def test_lines_that_cannot_be_read_are_named(folder: Path, tmp_path: Path) -> None:
    (folder / FILE).write_bytes((folder / FILE).read_bytes() + b"half\n")
    said = page(folder, tmp_path / "r")
    assert "1 part of the history could not be read" in said and f"{FILE} line 7" in said


def test_a_check_of_nothing_is_listed(tmp_path: Path) -> None:
    add(tmp_path, 0, errors=[("x.ncu-rep", "damaged")])
    (one,) = read(tmp_path).kernels
    assert (one.label, one.verdict) == ("no kernel checked", "nothing_measured")
    said = page(tmp_path, tmp_path / "r", f"kernel={one.kernel}&gpu={one.gpu}")
    assert "x.ncu-rep: damaged" in said and "0 kernels" in said


def test_rows_of_the_table_are_json(folder: Path) -> None:
    listed = checks.grid_rows(read(folder).kernels)
    assert json.loads(json.dumps(listed)) == listed
    assert listed[0]["change"] == "-6.93 % tensor pipe active" and listed[0]["commit"] == "a" * 10
    assert listed[0]["counted"] == "1 regressed, 4 pass"


def test_verdicts_differ_in_sign_and_colour() -> None:
    styles = VERDICT_STYLES.values()
    assert len({style.sign for style in styles}) == len({style.color for style in styles}) == len(VERDICT_STYLES)
    assert min(contrast(style.color, ground) for style in styles for ground in ("#ffffff", "#17202b")) >= 3
    assert style_of("very_odd").label == "very odd"


def test_numbers_in_words() -> None:
    assert amount(1_234_567.4, "cycle") == "1,234,567 cycles" and amount(None, "%") == "not collected"
    assert spread(43.0, 0.04, 5, "%") == "43.00 % ± 0.04 (n = 5)"
    assert spread(4e5, None, 1, "ns") == "400 µs (n = 1)"
    metric = KeptMetric(threshold=42.5, baseline_mean=50.0, better="higher", unit="%")
    assert fails(metric) == "below 42.50 % (-15.00 %)" and fails(replace(metric, threshold=None)) == ""


def test_the_commit_of_the_runs_comes_before_that_of_the_check() -> None:
    check_of = gate_history.KeptCheck(3, "c", WHEN, "pass", 0, sha="b" * 40)
    assert commit(Point(check_of, gate_history.KeptKernel(), KeptMetric())) == "checked at bbbbbbbbbb"
    own = gate_history.KeptKernel(git_sha="a" * 40, git_dirty=True)
    assert commit(Point(check_of, own, KeptMetric())) == "aaaaaaaaaa with changes"


def test_of_many_checks_the_newest_are_drawn(tmp_path: Path) -> None:
    result = check(groups(run(), run(43.0, 4)), BASELINES, CheckOptions())
    lines = [msgspec.json.encode(kept(result, checked=WHEN + timedelta(hours=number))) + b"\n" for number in range(250)]
    (tmp_path / FILE).write_bytes(b"".join(lines))
    known = read(tmp_path)
    built = checks.detail(ReportStore([]), known.kernels[0], ChecksAddress())
    assert "The newest 200 of 250 checks are drawn." in texts(built)


class TestCommand:
    """``ncubble dashboard --checks``."""

    def test_the_folder_must_be_there(self, tmp_path: Path) -> None:
        from ncubble.cli.dashboard import dashboard

        with pytest.raises(UsageError, match="no such folder"):
            dashboard([tmp_path], checks=tmp_path / "none")

    def test_shipped_checks_stand_beside_shipped_recordings_only(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shipped, ours = tmp_path / "shipped", [ROOT, FULL / "some"]
        monkeypatch.setattr("ncubble.recordings.CHECKS", shipped)
        assert gate_history.default_checks(ours, tmp_path) == tmp_path / "checks"
        shipped.mkdir()
        assert gate_history.default_checks(ours, tmp_path) == shipped
        for paths in ([], [tmp_path / "runs"], [ROOT, tmp_path / "runs"], [ROOT.parent.parent]):
            assert gate_history.default_checks(paths, tmp_path) == tmp_path / "checks"
        (tmp_path / "checks").mkdir()
        assert gate_history.default_checks(ours, tmp_path) == tmp_path / "checks"

    def test_the_folder_is_taken_once_at_the_start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "runs").mkdir()
        for given, taken in ((None, tmp_path / "checks"), (Path("history"), tmp_path / "history")):
            server, store = open_server([Path("runs")], checks=given)
            server.close()
            assert store.checks == taken

    def test_a_working_directory_that_is_gone_is_no_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        said = " ".join(texts(checks.layout(ReportStore([]), ChecksAddress())))
        assert "No check has been recorded. Searched in " in said
        assert "The history is checks/, which lies beside baselines/." in said and "`" not in said


def made(folder: Path, tensor: Sequence[float], gpus: Sequence[str] = ()) -> Any:
    """Points of tensor utilization and their trend, one check a day."""
    for day, mean in enumerate(tensor):
        manifest: dict[str, Any] = {"git": {"sha": f"{day + 1:040x}"[::-1], "dirty": False}}
        manifest["device"] = {"uuid": gpus[day]} if gpus else {}
        values = [mean + 0.03 * (day % 3) + 0.01 * i for i in range(5)]
        found = groups(report(values, STEADY_CYCLES, key=f"{day:016x}", manifest=manifest))
        result = check(found, recorded(report()), CheckOptions())
        append(folder, kept(result, checked=SINCE + timedelta(days=day)))
    history = read(folder)
    shown = of_metric(history.kernels[0].recent, "tensor_elapsed_pct")
    return shown, series_of(shown)


def test_a_change_is_a_line_and_a_row_that_says_when_where_and_by_how_much(tmp_path: Path) -> None:
    shown, trend = made(tmp_path, [43.0] * 6 + [42.0] * 6)
    (mark,) = marks(shown, trend)
    assert (mark.place, mark.text) == (6, "▼ -2.32 %")
    figure = trend_figure(shown, True, [mark])
    (line,) = figure.layout.shapes
    assert line.x0 == line.x1 == 6.5  # between the sixth check and the seventh
    assert "▼ -2.32 %" in [note.text for note in figure.layout.annotations]
    assert figure.layout.height > HEIGHT == trend_figure(shown, True).layout.height
    said = texts(changes(trend))
    assert "The level changed lastingly on 2026-09-07 at 7000000000 by -2.32 % (worse; confidence > 99.99 %)." in said
    assert "2026-09-07 12:00 UTC" in said and "7000000000 after 6000000000" in said
    assert any(text.startswith("-2.32 % (-2.") for text in said) and "level worse" in said


def test_an_odd_check_is_listed_and_no_line(tmp_path: Path) -> None:
    shown, trend = made(tmp_path, [43.0] * 6 + [39.0] + [43.0] * 5)
    assert not marks(shown, trend)
    said = texts(changes(trend))
    assert "one outlier; the next check is back at the level" in said and "7000000000" in said


@pytest.mark.parametrize(("count", "said"), [(3, "at least 4 are needed"), (5, "No lasting change over 5 checks.")])
def test_no_change_is_said(tmp_path: Path, count: int, said: str) -> None:
    _, trend = made(tmp_path, [43.0] * count)
    assert said in in_words(trend) and len(texts(changes(trend))) == 1


def test_texts_of_lines_that_stand_close_lie_in_rows() -> None:
    found = [figures.Mark(place, HOSTILE, figures.BOUNDARY, "dot") for place in (1, 2, 3, 90)]
    assert figures.text_rows(found, range(101)) == [0, 1, 2, 0]


def test_a_new_gpu_is_named_as_text_and_not_called_a_change(tmp_path: Path) -> None:
    shown, trend = made(tmp_path, [43.0] * 6 + [42.0] * 6, [HOSTILE] * 6 + ["GPU-b"] * 6)
    (mark,) = marks(shown, trend)
    assert mark.text == "new GPU" and mark.dash == "dot"
    assert in_words(trend) == "No lasting change over 12 checks."
    assert HOSTILE not in trend_figure(shown, False, [mark]).to_json()
    assert any(f"new GPU {HOSTILE} → b" in text for text in texts(changes(trend)))  # a string child: React escapes it


def test_the_page_shows_them(tmp_path: Path) -> None:
    made(tmp_path / "checks", [43.0] * 6 + [42.0] * 6)
    store = frames.store(tmp_path)
    store.checks = tmp_path / "checks"
    (subject,) = read(store.checks).kernels
    said = texts(checks.layout(store, ChecksAddress.parse(f"?kernel={subject.kernel}&metric=tensor_elapsed_pct")))
    assert any("changed lastingly on 2026-09-07" in text for text in said)
    said = texts(checks.layout(store, ChecksAddress.parse(f"?kernel={subject.kernel}&metric=dram_pct")))
    assert "No lasting change over 12 checks." in said
