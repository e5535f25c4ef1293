"""``ncubble.check``: true only where the gate passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ncubble
from ncubble.errors import ReportError, UsageError
from ncubble.recordings import REPEATS, ROOT

KERNEL = "tensor_core_gemm stages=3 copy=async"


@pytest.fixture
def store(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return repository / "baselines"


def test_the_same_speed_passes(store: Path) -> None:
    found = ncubble.check(REPEATS, baseline=store, kernel=f"{KERNEL} vec=16")
    assert found and found.passed and (found.verdict, found.exit_code) == ("pass", 0)
    assert found.kernels["verdict"].tolist() == ["pass"]
    gated = found.metrics.query("gated").set_index("name")
    assert abs(gated.loc["cycles", "change_pct"]) < gated.loc["cycles", "threshold_pct"]
    assert "passed (1 kernel checked)" in repr(found)
    assert max(map(len, repr(found).splitlines()[:3])) <= 80
    assert "<table>" in found._repr_html_() and found.to_junit().startswith("<?xml")


def test_what_load_returned_is_judged_like_its_paths(store: Path) -> None:
    r = ncubble.load(REPEATS / "tensor_core_gemm")
    assert (
        ncubble.check(r, baseline=store).to_json()
        == ncubble.check(REPEATS / "tensor_core_gemm", baseline=store).to_json()
    )
    with pytest.raises(UsageError, match="1 of its 5 launches are chosen"):
        ncubble.check(r[:1], baseline=store)


def test_a_broken_absolute_limit_fails_and_is_called_so(store: Path) -> None:
    found = ncubble.check(REPEATS, baseline=store, kernel=f"{KERNEL} vec=16", rules="tensor_elapsed_pct >= 90")
    assert not found and (found.verdict, found.exit_code) == ("limit_broken", 1)
    assert "failed: limit broken" in repr(found)


def test_what_cannot_be_judged_does_not_pass(store: Path, tmp_path: Path) -> None:
    nothing = ncubble.check(REPEATS, baseline=store, kernel="no_such_kernel")
    assert not nothing and nothing.verdict == "nothing_measured"
    bad = tmp_path / "bad.ncu-rep"
    bad.write_bytes(b"no report")
    damaged = ncubble.check(REPEATS, bad, baseline=store, kernel=f"{KERNEL} vec=16")
    assert not damaged and damaged.exit_code == 3 and damaged.errors[0][0] == str(bad)
    loaded = ncubble.load(REPEATS / "tensor_core_gemm", bad, strict=False)
    assert ncubble.check(loaded, baseline=store).errors[0][0] == str(bad)
    assert "not read" in repr(damaged)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"kernel": "("}, "not a regular expression"), ({"rules": ["cycles"]}, "neither a sign nor a percentage")],
)
def test_a_wrong_request_is_refused(store: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ncubble.check(REPEATS, baseline=store, **options)


def test_settings_of_the_project_count_unless_they_are_ignored(store: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.ncubble.gate]\nbaselines = "{store}"\nrules = ["tensor_elapsed_pct >= 90"]\n'
    )
    run = REPEATS / "tensor_core_gemm" / "stages3"
    assert ncubble.check(run).verdict == "limit_broken"
    assert ncubble.check(run, baseline=store, config=False).verdict == "pass"
    with pytest.raises((UsageError, ReportError)):
        ncubble.check(ROOT / "none", config=False, baseline=tmp_path / "none")
