"""``ncubble check --bisect nvcc:A..B``: the version is named under recorded noise, by environment
alone."""

from pathlib import Path

import pytest

from ncubble.analysis.gate.bisect.code import difference
from ncubble.analysis.gate.bisect.output import sentence
from ncubble.analysis.gate.check.result import CheckOptions
from ncubble.cli.commands.check.bisect import ranges
from ncubble.cli.commands.check.bisect.bisect import take_bisect
from ncubble.cli.commands.check.options import Measuring
from ncubble.cli.commands.check.subject import describe
from ncubble.errors import UsageError
from ncubble.kernels.build import compilers
from ncubble.kernels.build.compilers import NvccRelease
from tests.helpers.gate_frames import gemm
from tests.helpers.played_runs import SPEED, RecordedPlayer

VERSIONS = {"12.6.1": 1.0, "12.8.93": 1.0, "12.9.86": 0.95, "13.0.88": 0.95, "13.2.1": 0.95}


@pytest.fixture
def player(tmp_path, monkeypatch):
    """Five toolkits, each with the speed of what it builds."""
    known = []
    for version, speed in VERSIONS.items():
        home = tmp_path / version
        (home / "bin").mkdir(parents=True)
        (home / SPEED).write_text(str(speed))
        known.append(NvccRelease(tuple(map(int, version.split("."))), home / "bin" / "nvcc"))
    monkeypatch.setattr(compilers, "releases", lambda named: known)
    monkeypatch.chdir(tmp_path)
    return RecordedPlayer(gemm()).install(monkeypatch)


def search(span, name="tensor_core_gemm", **more):
    measuring = Measuring(**{"bisect": span, "rounds": 2, **more})
    return take_bisect(measuring, [Path(name)] if name else [], CheckOptions(), nvtx=True)


def test_the_version_is_named_and_each_runs_in_its_own_environment(player, tmp_path, monkeypatch):
    seen = []

    def described(measuring, side, subject):
        seen.append(side)
        return describe(measuring, side, subject)

    monkeypatch.setattr("ncubble.cli.commands.check.bisect.measuring.describe", described)
    result = search("nvcc:12.6..13.2")
    assert (result.kind, result.culprit.name, result.against.name) == ("nvcc", "12.9.86", "12.8.93")
    assert result.confirmed
    assert sentence(result).startswith("nvcc 12.9.86 made")
    assert {side.root for side in seen} == {None}
    first = player.requests[0]
    assert "--tree" not in first.program and first.place.env["PATH"].startswith(str(tmp_path / "12.6.1" / "bin"))


@pytest.mark.parametrize(
    ("span", "name", "asked", "says"),
    [
        ("nvcc:12.6", "tensor_core_gemm", {}, "no range"),
        ("nvcc:12.6..", "tensor_core_gemm", {}, "no range"),
        ("nvcc:11..13", "tensor_core_gemm", {}, "nvcc 11 was not found"),
        ("nvcc:12..13", "numba_tiled_matmul", {}, "is not compiled by nvcc"),
        ("nvcc:12..13", "tensor_core_gemm", {"first_parent": True}, "--first-parent is for commits"),
        ("nvcc:12..13", "", {"program": ["true"]}, "each compiler must build the program"),
    ],
)
def test_a_wrong_request_is_named(player, span, name, asked, says):
    with pytest.raises(UsageError) as refused:
        search(span, name, **asked)
    assert says in refused.value.message and player.requests == []


def test_changes_of_the_machine_code_are_named_the_largest_first():
    from collections import Counter

    before = Counter({"HMMA.16816.F32": 64, "LDS": 8, "BAR.SYNC": 2})
    now = Counter({"HMMA.16816.F32": 64, "LDS": 32, "BAR.SYNC": 4})
    assert difference(before, now) == "machine code: 74 -> 100 instructions; LDS 8 -> 32, BAR.SYNC 2 -> 4"
    assert difference(now, now) == "machine code: the same opcodes (100 instructions)"
    many = Counter({f"OP{index}": index for index in range(9)})
    assert difference(Counter(), many).endswith("OP3 0 -> 3 and 2 more")


def test_a_range_of_commits_takes_no_nvcc():
    with pytest.raises(UsageError, match="--nvcc is for a range of compilers"):
        ranges.range_of(Measuring(bisect="a..b", nvcc=[Path("x")]), "scale")
