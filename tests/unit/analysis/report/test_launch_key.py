"""Keys of launches: what stays equal, and what a coarser match leaves out."""

from __future__ import annotations

from dataclasses import replace

from ncubble.analysis.report.launch_key import KernelKey, LaunchKey

KEY = LaunchKey("gemm stages=3", "gemm", "void gemm<3>(float*)", '{"m": 64}', "8,1,1", "256,1,1", "step", "NVIDIA H200")


def test_matches_grow_coarser_one_after_the_other() -> None:
    changed = {
        "of_repeats": replace(KEY, kernel="other"),
        "of_any_device": replace(KEY, device="NVIDIA A100"),
        "of_problem": replace(KEY, demangled="void gemm<4>(float*)", grid="4,1,1", nvtx=""),
        "of_configuration": replace(KEY, label="gemm stages=4", nvtx=""),
        "of_geometry": replace(KEY, demangled="void gemm<4>(float*)", label="", shape=""),
        "of_instance": replace(KEY, grid="4,1,1", block="128,1,1", shape="", label=""),
        "of_function": replace(KEY, demangled="void gemm<4>(float*)", grid="4,1,1", label=""),
    }
    for match, other in changed.items():
        assert getattr(other, match) == getattr(KEY, match), match
        assert match == "of_repeats" or other.of_repeats != KEY.of_repeats, match


def test_a_baseline_outlives_a_change_of_tiles_of_a_named_kernel_alone() -> None:
    other = replace(KEY, grid="4,1,1", demangled="void gemm<4>(float*)")
    facts = {"name": "gemm", "parameters": {"stages": 3}, "shape": {"m": 64}}
    assert KernelKey.of(KEY, facts, several=False) == KernelKey.of(other, facts, several=False)
    assert KernelKey.of(KEY, facts, several=True) != KernelKey.of(other, facts, several=True)
    assert KernelKey.of(KEY, {}, several=False) != KernelKey.of(replace(KEY, grid="4,1,1"), {}, several=False)
