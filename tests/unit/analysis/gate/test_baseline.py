"""Baselines: how launches become repeats, what may be recorded, and which files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.gate import baseline_file
from ncubble.analysis.gate.baseline import record, weaknesses
from ncubble.analysis.gate.repeats import code_hash, collect
from ncubble.errors import MeasurementError, ReportError, UsageError
from tests.helpers.gate_frames import TENSOR, gemm, groups, recorded, report

NOW = "2026-11-20T12:00:00+00:00"


def test_launches_of_one_kernel_over_several_reports_are_repeats() -> None:
    (group,) = groups(report([43.0, 43.1]), report([43.2]))
    assert group.launches == 3
    assert group.values[TENSOR] == [43.0, 43.1, 43.2]
    assert group.key.label == "tensor_core_gemm stages=3 m=4096 n=4096 k=4096"


def test_parameters_shape_gpu_and_nvtx_separate_kernels() -> None:
    others = [report(kernel=gemm(2)), report(kernel=gemm(3, shape={"m": 8192})), report(device="NVIDIA H100")]
    assert len(groups(report(), report(nvtx="step"), *others)) == 5
    assert len(groups(report(), report(grid="64,64,1", block="128,1,1"))) == 1
    assert len(collect([report(), report(nvtx="step")], by_nvtx=False)[0]) == 1


def test_launches_of_one_run_with_different_grids_are_no_repeats() -> None:
    found = groups(report([43.0, 43.0], grid=["1,1,1", "2,1,1"]))
    assert [group.key.grid for group in found] == ["1,1,1", "2,1,1"]


def test_foreign_launches_are_told_apart_by_template_arguments_and_grid() -> None:
    names = ["void gemm<(int)3>(float*)", "void gemm<(int)4>(float*)"]
    assert len(groups(report([1.0, 2.0], kernel={}, demangled=names), report([1.0], kernel={}, grid="1,1,1"))) == 3


def test_only_launches_of_the_named_function_carry_its_name() -> None:
    names = ["gemm", "memset", "gemm2"]
    found = groups(report([43.0] * 3, demangled=names, functions=names))
    assert [group.key.kernel for group in found] == ["tensor_core_gemm", "memset", "gemm2"]


def test_the_same_report_twice_is_no_second_repeat() -> None:
    found, notes = collect([report(key="same"), report(key="same")])
    assert found[0].launches == 5
    assert "counted once" in notes[0]


def test_a_baseline_survives_its_file(tmp_path: Path) -> None:
    manifest = {
        "build": {"compiler": "nvcc 13.0", "cubin_sha256": "ab"},
        "git": {"sha": "cd"},
        "device": {"driver": "580"},
    }
    (before,) = recorded(report(manifest=manifest))
    path = tmp_path / before.place
    baseline_file.save([(path, before)])
    after = baseline_file.load(path)
    assert after.path == str(path)
    assert after.to_json() == before.to_json()
    assert path.parent.name == "nvidia-h200"
    assert (after.device.driver, after.build["cubin_sha256"], after.git["sha"], after.repeats) == ("580", "ab", "cd", 5)
    assert after.geometry["smem_dynamic_B"] == 49152


def test_fewer_than_five_launches_are_refused_with_the_command_that_helps() -> None:
    with pytest.raises(MeasurementError, match=r"stages=3 .*\(4\)") as caught:
        recorded(report([43.0] * 4))
    assert "--count 5" in caught.value.remedy


def test_fewer_repeats_may_be_asked_for_and_are_called_weak() -> None:
    with pytest.raises(MeasurementError) as few:
        record(groups(report([43.0, 43.1])), NOW)
    assert "--setting min_repeats=N (at least 2)" in few.value.remedy
    (weak,) = record(groups(report([43.0, 43.1])), NOW, min_repeats=2)
    assert any("weak" in text for text in weaknesses(weak))
    with pytest.raises(UsageError, match="min_repeats 1"):
        record(groups(report()), NOW, min_repeats=1)


def test_nothing_is_recorded_from_nothing() -> None:
    with pytest.raises(MeasurementError, match="nothing measured"):
        record([], NOW)
    with pytest.raises(MeasurementError, match="nothing was measured that can be gated"):
        recorded(report(counters={}))


def test_a_counter_missing_in_some_launches_makes_no_baseline() -> None:
    with pytest.raises(MeasurementError, match="measured in 4 of 5 launches"):
        recorded(report([43.0, 43.0, float("nan"), 43.0, 43.0]))


def test_repeats_of_two_builds_or_two_profilers_make_no_baseline() -> None:
    two = [report(manifest={"build": {"cubin_sha256": sha}}) for sha in ("a", "b")]
    with pytest.raises(MeasurementError, match="2 builds"):
        recorded(*two)
    with pytest.raises(MeasurementError, match="2 versions of ncu"):
        recorded(report(), report(ncu_version="2024.1.0"))


@pytest.mark.parametrize("pct", [0.0, 3.7])
def test_a_kernel_without_tensor_work_is_gated_by_cycles_alone(pct: float) -> None:
    (item,) = recorded(report([pct] * 5))
    assert any("only cycles are gated" in text for text in weaknesses(item))
    assert {name: metric.gated for name, metric in item.metrics.items()} == {
        "tensor_elapsed_pct": False,
        "cycles": True,
        "duration_ns": False,
        "dram_pct": False,
    }


def saved(tmp_path: Path) -> Path:
    path = tmp_path / "base.json"
    baseline_file.save([(path, recorded()[0])])
    return path


def test_a_baseline_is_not_overwritten_without_force(tmp_path: Path) -> None:
    path = saved(tmp_path)
    other = tmp_path / "new.json"
    with pytest.raises(UsageError, match=r"base\.json"):
        baseline_file.save([(other, recorded()[0]), (path, recorded()[0])])
    assert not other.exists()
    baseline_file.save([(path, recorded(report([50.0] * 5))[0])], force=True)
    assert baseline_file.load(path).metrics["tensor_elapsed_pct"].values == (50.0,) * 5


def test_a_failed_write_leaves_the_old_baseline_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    before = path.read_text()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ncubble.store.os.fsync", full)
    with pytest.raises(MeasurementError, match="No space left"):
        baseline_file.save([(path, recorded(report([50.0] * 5))[0])], force=True)
    assert path.read_text() == before
    assert [item.name for item in tmp_path.iterdir()] == ["base.json"]


def _set(field: str, value: Any) -> Any:
    def change(raw: dict[str, Any]) -> None:
        *parents, last = field.split(".")
        for parent in parents:
            raw = raw[parent]
        if value is ...:
            del raw[last]
        else:
            raw[last] = value

    return change


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", True),
        ("schema", ...),
        ("key", "gemm"),
        ("key.kernel", 3),
        ("key.parameters", [1]),
        ("device.name", ""),
        ("device.name", None),
        ("repeats", 1),
        ("repeats", 5.0),
        ("metrics", []),
        ("metrics.cycles", None),
        ("metrics.cycles.gated", "yes"),
        ("metrics.cycles.better", "sideways"),
        ("metrics.dram_pct.gated", True),
        ("metrics.cycles.values", [5e5, "x"]),
        ("metrics.cycles.values", [5e5, float("nan")]),
        ("metrics.cycles.values", []),
        ("metrics.cycles.values", [1e-320] * 5),
        ("metrics.cycles.values", [5e5, 1e200]),
        ("metrics.cycles.values", [5e5, 10**400]),
        ("metrics.cycles.mean", 1.0),
        ("metrics.cycles.sd", float("inf")),
        ("sm_clock_hz.mean", "fast"),
        ("build.registers", [float("nan")]),
        ("key.shape.m", float("inf")),
        ("reports", [3]),
        ("reports", [{"gpu": None}]),
    ],
)
def test_a_wrong_field_is_named_with_its_file(tmp_path: Path, field: str, value: Any) -> None:
    path = saved(tmp_path)
    raw = json.loads(path.read_text())
    _set(field, value)(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(ReportError) as caught:
        baseline_file.load(path)
    assert str(path) in caught.value.message
    named = [part for part in field.split(".") if part in caught.value.message.split("not a usable baseline")[1]]
    assert named and (named[-1] == field.split(".")[-1] or "contains NaN" in caught.value.message)


def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_text(path.read_text().replace('"schema": 3', '"schema": 4'))
    with pytest.raises(ReportError, match="schema 4, not 3") as caught:
        baseline_file.load(path)
    assert "upgrade" in caught.value.remedy


@pytest.mark.parametrize("size", [0, 1, 100, -3])
def test_a_half_written_file_is_refused(tmp_path: Path, size: int) -> None:
    path = saved(tmp_path)
    path.write_text(path.read_text()[:size])
    with pytest.raises(ReportError, match="not valid JSON"):
        baseline_file.load(path)


def test_two_files_for_one_kernel_are_both_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "base-old.json").write_text(path.read_text())
    (other,) = recorded(report(kernel=gemm(2)))
    baseline_file.save([(tmp_path / "other.json", other)])
    (tmp_path / "broken.json").write_text("[]")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    baselines, errors = baseline_file.load_store(tmp_path)
    assert [item.key for item in baselines] == [other.key]
    for error, name in zip(errors, ("binary.json", "broken.json", "base-old.json and "), strict=True):
        assert name in str(error)


def test_the_place_where_code_was_loaded_is_no_difference() -> None:
    here = ["@!P0  BRA 0x7f09cb7a1220", "IADD R1, R1, 0x7fffffff", "BRA 0x7f09cb7a07a0"]
    there = ["@!P0  BRA 0x7e00000a1220", "IADD R1, R1, 0x7fffffff", "BRA 0x7e00000a07a0"]
    assert code_hash(here) == code_hash(there)
    assert code_hash(here) != code_hash([*there[:2], "BRA 0x7e00000a07b0"])
    assert code_hash(here) != code_hash(["@!P0  BRA 0x7e00000a1220", "IADD R1, R1, 0x7ffffffe", there[2]])
