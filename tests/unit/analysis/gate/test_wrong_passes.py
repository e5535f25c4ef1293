"""What must never pass a check: reports that are not read, launches that were not measured anew,
and values that no launch has. Variants are made of one recorded report of five launches.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path

import pytest
import zstandard

from benchmarks.reports import structure
from benchmarks.reports.fuzz import plain_bytes
from ncubble.analysis.gate.settings import GateSettings
from ncubble.api.baselines import record_baselines
from ncubble.api.checking import CheckResult, check
from ncubble.errors import MeasurementError
from ncubble.profiling.runs import Run
from ncubble.recordings import REPEATS
from tests.helpers.damaged_reports import Change, with_values

OWN = plain_bytes(Run.load(REPEATS / "tensor_core_gemm" / "stages1").report)
TENSOR, CYCLES = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "sm__cycles_elapsed.avg"


def slower(factor: float) -> Change:
    """A launch that was measured anew, ``factor`` times as long: its times and cycles, and the
    shares and rates that follow from them."""

    def change(launch: int, name: str, value: float) -> list[float]:
        per_second = name.endswith("per_second")
        if "__cycles_elapsed" in name or name.startswith("gpu__time_duration"):
            return [value if per_second else value * factor]
        return [value / factor if per_second or name.endswith("pct_of_peak_sustained_elapsed") else value]

    return change


fresh, slow = (cache(partial(with_values, OWN, slower(factor))) for factor in (1.0001, 1.05))


def packed(data: bytes, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level).compress(data)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``own.ncu-rep`` and its baseline in ``baselines``."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "own.ncu-rep").write_bytes(OWN)
    record_baselines([folder / "own.ncu-rep"], folder / "baselines", settings=GateSettings())
    return folder


@pytest.fixture
def gate(home: Path, tmp_path: Path) -> Callable[..., CheckResult]:
    def judged(*reports: bytes, suffix: str = ".ncu-rep") -> CheckResult:
        for number, data in enumerate(reports):
            (tmp_path / f"{number}{suffix}").write_bytes(data)
        return check(tmp_path, baseline=home / "baselines", require_all=True, config=False)

    return judged


def test_what_was_measured_anew_is_judged(gate):
    assert gate(fresh()).verdict == "pass"


def test_what_was_measured_anew_and_is_slower_is_a_regression_beside_any_copies(gate):
    assert gate(slow(), OWN, first_only(OWN, 3)).verdict == "regressed"


def moved(target: str) -> Callable[[Path, Path], None]:
    def move(item: Path, away: Path) -> None:
        place = item.parent / target
        place.parent.mkdir(parents=True, exist_ok=True)
        item.rename(place)

    return move


def linked(target: str) -> Callable[[Path, Path], None]:
    def link(item: Path, away: Path) -> None:
        folder = away / target
        folder.mkdir(parents=True, exist_ok=True)
        item.rename(folder / item.name)
        (item.parent / "link").symlink_to(away)

    return link


HIDDEN = (".run/{}", ".a/b/c/{}", "x/.run/{}", ".git/{}", "x/y/.z/w/{}", ".runs.old/{}")
LINKED = ("", "a", "a/b/c", "r.ncu-rep")
SUFFIXES = (".NCU-REP", ".Ncu-Rep", ".ncu-REP", ".NCU-REPZ", ".ncu-repZ", ".Ncu-Repz")
SKIPPED = {
    **{f"in {name}": moved(name.format("x.ncu-rep")) for name in HIDDEN},
    **{f"as report in {name}": moved(name.format("report.ncu-rep")) for name in HIDDEN},
    **{f"linked {name}": linked(name) for name in LINKED},
    **{f"called {name}": moved(f"x{name}") for name in SUFFIXES},
    **{f"report called {name}": moved(f"run/report{name}") for name in SUFFIXES},
    "nameless": moved(".ncu-rep"),
    "nameless in a folder": moved("x/.ncu-repz"),
}


@pytest.mark.parametrize("kind", SKIPPED)
def test_a_report_that_is_not_read_is_an_error(kind, home, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "fresh.ncu-rep").write_bytes(fresh())
    (tree / "slow.ncu-rep").write_bytes(slow())
    (tmp_path / "away").mkdir()
    SKIPPED[kind](tree / "slow.ncu-rep", tmp_path / "away")
    result = check(tree, baseline=home / "baselines", config=False)
    assert result.exit_code == 3 and len(result.errors) == 1, result


def test_the_other_form_of_a_report_beside_it_is_an_error(home, tmp_path):
    (tmp_path / "report.ncu-rep").write_bytes(fresh())
    (tmp_path / "report.ncu-repz").write_bytes(packed(slow()))
    result = check(tmp_path, baseline=home / "baselines", config=False)
    assert result.exit_code == 3 and "report.ncu-repz" in result.errors[0][0]


BASELINE_KINDS = {
    **{f"in {name}": moved(name.format("x.json")) for name in HIDDEN},
    **{f"linked {name}": linked(name) for name in LINKED[:3]},
    **{f"called {name}": moved(f"x{name}") for name in (".JSON", ".Json", ".jsoN")},
}


@pytest.mark.parametrize("kind", BASELINE_KINDS)
def test_a_baseline_that_is_not_read_is_an_error(kind, home, tmp_path):
    shutil.copytree(home / "baselines", tmp_path / "baselines")
    (file,) = (tmp_path / "baselines").rglob("*.json")
    other = tmp_path / "baselines" / "other.json"
    other.write_text(file.read_text().replace('"kernel": "', '"kernel": "other_'))
    (tmp_path / "away").mkdir()
    BASELINE_KINDS[kind](other, tmp_path / "away")
    (tmp_path / "fresh.ncu-rep").write_bytes(fresh())
    result = check(tmp_path / "fresh.ncu-rep", baseline=tmp_path / "baselines", require_all=True, config=False)
    assert result.exit_code == 3 and len(result.errors) == 1, result


def test_a_folder_of_baselines_that_cannot_be_listed_is_an_error(home, tmp_path, monkeypatch):
    shutil.copytree(home / "baselines", tmp_path / "baselines")
    (tmp_path / "baselines" / "closed").mkdir()
    scan = __import__("os").scandir

    def refused(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("os.scandir", refused)
    (tmp_path / "fresh.ncu-rep").write_bytes(fresh())
    result = check(tmp_path / "fresh.ncu-rep", baseline=tmp_path / "baselines", config=False)
    assert result.exit_code == 3 and "closed" in result.errors[0][1]


def without(*starts: str) -> Change:
    return lambda launch, name, value: [] if name.startswith(starts) else [value]


def reordered(data: bytes, turn: int) -> bytes:
    """The metrics of each launch in another order."""
    report = structure.parse(data)
    blocks = [(head, [[*body[turn:], *body[:turn]] if len(body) > 99 else body for body in bodies])
              for head, bodies in report.blocks]  # fmt: skip
    return structure.written(structure.Report(report.head, blocks, {}), {})


def first_only(data: bytes, launches: int) -> bytes:
    """The report with its first launch ``launches`` times, numbered in turn."""
    report = structure.parse(data)
    blocks = list(report.blocks[:10])
    _, (body,) = report.blocks[2]
    number = next(f for f in body if f.number == 2)
    for more in range(1, launches):
        again = structure.Field(2, structure.VARINT, structure.varint(5000 + more))
        blocks.append((report.blocks[10][0], [[again if f is number else f for f in body]]))
    return structure.written(structure.Report(report.head, blocks, {}), {})


def dram_times(factor: float) -> Change:
    return lambda launch, name, value: [value * factor if "dram" in name else value]


COPIES = {
    **{f"level {level}": partial(packed, OWN, level) for level in (1, 2, 5, 9, 15, 19)},
    **{f"without {name}": partial(with_values, OWN, without(name)) for name in
       ("dram__", "lts__", "device__", "profiler__", "sm__inst", "smsp__", "gpu__dram", "sm__pipe", "gpu__time")},
    **{f"{number} times": partial(first_only, OWN, number) for number in (1, 2, 5, 9)},
    **{f"dram times {factor}": partial(with_values, OWN, dram_times(factor)) for factor in (0.9, 1.0001, 1.1)},
    **{f"turned by {turn}": partial(reordered, OWN, -turn) for turn in (1, 2, 3)},
}  # fmt: skip


@cache
def lacking() -> list[bytes]:
    """Slower launches without what says so."""
    changes = (
        lambda launch, name, value: [math.nan] if name == CYCLES else [value],
        without("sm__cycles_elapsed", "sm__pipe_tensor", "gpc__cycles"),
    )
    return [packed(with_values(slow(), change)) for change in changes]


@pytest.mark.parametrize("copy", COPIES)
def test_copies_of_the_baselines_launches_measure_nothing_new(copy, gate):
    data = COPIES[copy]()
    if data[:4] == b"NVR\0":
        data = packed(data)
    for beside in ([], *([one] for one in lacking())):
        assert gate(data, *beside, suffix=".ncu-repz").exit_code == 3


@pytest.mark.parametrize("number", range(2, 8))
def test_copies_are_no_repeats_of_a_baseline(number, tmp_path):
    (tmp_path / "own.ncu-rep").write_bytes(OWN)
    (tmp_path / "copies.ncu-rep").write_bytes(first_only(OWN, number))
    for level in range(1, number):
        (tmp_path / f"{level}.ncu-repz").write_bytes(packed(OWN, level))
    for paths in ([tmp_path / "copies.ncu-rep"], [tmp_path / "own.ncu-rep", tmp_path / "1.ncu-repz"], [tmp_path]):
        with pytest.raises(MeasurementError, match="copies of others"):
            record_baselines(paths, tmp_path / "out", settings=GateSettings(min_repeats=2))
    assert not (tmp_path / "out").exists()


READ = (CYCLES, TENSOR, "gpu__time_duration.sum", "sm__cycles_elapsed.max", "launch__registers_per_thread")
NO_COUNT = (math.inf, -math.inf, -1.0, 1e308, -1e308)
ODD = [
    *product(READ, NO_COUNT),
    *product((CYCLES, "gpu__time_duration.sum"), (math.nan,)),
    *product(("dram__bytes_read.sum", "dram__bytes_write.sum"), (1e308, -5.0, math.inf)),
    *product(("device__attribute_compute_capability_major",), (0.0, 8.0, 10.0, 99.0)),
    ("device__attribute_compute_capability_minor", 7.0),
]


def refused(gate: Callable[..., CheckResult], reports: list[bytes]) -> list[str]:
    """What is said of each of ``reports``, none of which may be judged."""
    result = gate(*reports)
    assert result.exit_code == 3 and len(result.errors) == len(reports), result
    said = {int(Path(path).stem): text for path, text in result.errors}
    return [said[number] for number in range(len(reports))]


def odd(metric: str, new: float, launches: range) -> bytes:
    return with_values(fresh(), lambda at, name, old: [new] if at in launches and name == metric else [old])


SOME = pytest.mark.parametrize("launches", [range(1), range(5)], ids=["one", "all"])


@SOME
def test_a_value_that_no_launch_has_is_refused_with_its_name(launches, gate):
    for (metric, _), text in zip(ODD, refused(gate, [odd(*one, launches) for one in ODD]), strict=True):
        assert ("compute capability" if "capability" in metric else metric) in text


@SOME
def test_a_share_that_is_nan_is_not_compared(launches, gate):
    result = gate(odd(TENSOR, math.nan, launches))
    assert result.exit_code == 3 and TENSOR in str(result)


def test_a_metric_with_two_values_is_refused(gate):
    metrics = (CYCLES, TENSOR, "sm__cycles_elapsed.max", "dram__bytes_read.sum", "launch__grid_size")
    cases = list(product(metrics, (0.5, 1.001, 1.05, math.nan), (1, -1)))

    def doubled(metric: str, factor: float, order: int) -> bytes:
        return with_values(slow(), lambda _, name, old: [old, old * factor][::order] if name == metric else [old])

    for (metric, *_), text in zip(cases, refused(gate, [doubled(*case) for case in cases]), strict=True):
        assert f"different values of {metric}" in text
