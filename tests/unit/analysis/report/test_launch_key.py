"""Keys of launches: what stays equal, and what a coarser match leaves out."""

from __future__ import annotations

from dataclasses import replace

from ncubble.analysis.report.launch_key import MATCHES, KernelKey, LaunchKey

KEY = LaunchKey("gemm stages=3", "gemm", "void gemm<3>(float*)", '{"m": 64}', "8,1,1", "256,1,1", "step", "NVIDIA H200")


def test_matches_grow_coarser_one_after_the_other() -> None:
    changed = [
        replace(KEY, device="NVIDIA A100"),
        replace(KEY, demangled="void gemm<4>(float*)", grid="4,1,1", nvtx=""),
        replace(KEY, label="gemm stages=4", nvtx=""),
        replace(KEY, demangled="void gemm<4>(float*)", label="", shape=""),
        replace(KEY, grid="4,1,1", block="128,1,1", shape="", label=""),
        replace(KEY, demangled="void gemm<4>(float*)", grid="4,1,1", label=""),
    ]
    assert replace(KEY, kernel="other").of_repeats == KEY.of_repeats
    for (match, parts), other in zip(MATCHES.items(), changed, strict=True):
        assert other.only(*parts) == KEY.only(*parts), match
        assert other.of_repeats != KEY.of_repeats, match


def test_a_baseline_outlives_a_change_of_tiles_of_a_named_kernel_alone() -> None:
    other = replace(KEY, grid="4,1,1", demangled="void gemm<4>(float*)")
    facts = {"name": "gemm", "parameters": {"stages": 3}, "shape": {"m": 64}}
    assert KernelKey.of(KEY, facts, several=False) == KernelKey.of(other, facts, several=False)
    assert KernelKey.of(KEY, facts, several=True) != KernelKey.of(other, facts, several=True)
    assert KernelKey.of(KEY, {}, several=False) != KernelKey.of(replace(KEY, grid="4,1,1"), {}, several=False)
