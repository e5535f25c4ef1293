"""The command line of ncu, whole; what ncu prints, taken apart; its failures, told apart."""

import itertools
import re
from pathlib import Path

import pytest

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import failures
from ncubble.profiling.metrics.metrics import MetricSelection
from ncubble.profiling.ncu import Filters, NcuLog, ReplayedLaunch, failure, ncu_argv, raw_page, require_options

PLAIN = MetricSelection(sets=("tensor",), metrics=("a__b.sum", "c__d.avg"))


def fed(*pieces, stream="stdout"):
    log = NcuLog()
    for piece in pieces:
        log.feed(stream, piece)
    log.close()
    return log


CONSTANT = "--force-overwrite --target-processes all --replay-mode kernel"
UNNAMED = f"--kernel-name-base demangled --kernel-name regex:{Filters().names}"


def test_the_command_line_of_metrics():
    argv = ncu_argv("/opt/ncu", Path("/data/r/report"), ["python", "train.py", "--lr", "1"], PLAIN)
    assert " ".join(argv) == (
        f"/opt/ncu --config-file off --export /data/r/report {CONSTANT} --clock-control none --cache-control all "
        f"--import-source no --metrics a__b.sum,c__d.avg {UNNAMED} python train.py --lr 1"
    )


def test_the_command_line_of_everything():
    selection = MetricSelection(("x",), ("a__b.sum",), ("LaunchStats", "Occupancy"), ("full",), import_source=True)
    filters = Filters(kernel="^gemm$", nvtx="train@step/", skip=3, count=2, without="")
    options = [("clock-control", "base"), ("cache-control", "none")]
    assert " ".join(ncu_argv("ncu", Path("r"), ["./prog"], selection, filters, options)) == (
        f"ncu --config-file off --export r {CONSTANT} --clock-control base --cache-control none --import-source yes "
        "--set full --section LaunchStats --section Occupancy --metrics a__b.sum --kernel-name-base function "
        "--kernel-name regex:^gemm$ --nvtx --nvtx-include train@step/ --launch-skip 3 --launch-count 2 ./prog"
    )


@pytest.mark.parametrize(
    ("kernel", "base"),
    [
        ("cutlass", "demangled"),
        (r"\bgemm_(tma|ws)<\(int\)3", "demangled"),
        ("^gemm$", "function"),
        ("gemm$|softmax", "function"),
        ("gemm(?!_tma)", "function"),
        ("gemm(?:_tma)?", "demangled"),
    ],
)
def test_ncu_searches_the_demangled_name_unless_the_pattern_depends_on_the_ends_of_the_base_name(kernel, base):
    argv = ncu_argv("ncu", Path("r"), ["x"], PLAIN, Filters(kernel=kernel, without=""))
    at = argv.index("--kernel-name-base")
    assert argv[at + 1 : at + 4] == [base, "--kernel-name", f"regex:{kernel}"]


def test_single_launches_are_chosen_by_mangled_name_and_number():
    chosen = Filters(symbols=("_Z4gemmILi128EEvPf", "nvjet_a$b"), invocation=7)
    argv = ncu_argv("ncu", Path("r"), ["x"], PLAIN, chosen)
    at = argv.index("--filter-mode")
    assert argv[at : at + 6] == [
        *("--filter-mode", "per-launch-config", "--kernel-name-base", "mangled", "--kernel-id"),
        "::regex:^(_Z4gemmILi128EEvPf|nvjet_a\\$b)$:7",
    ]
    begins = ncu_argv("ncu", Path("r"), ["x"], PLAIN, Filters(symbols=("_Z4long*",), invocation=1))
    assert "::regex:^(_Z4long.*)$:1" in begins
    assert str(chosen) == "launch 7 of 2 kernels"
    for wrong in ({"symbols": ("f",)}, {"invocation": 1}, {"symbols": ("f",), "invocation": 1, "kernel": "g"}):
        with pytest.raises(UsageError, match="go together"):
            Filters(**wrong)


def test_percent_signs_in_a_path_are_not_macros_of_ncu():
    assert "/data/100%%p/report" in ncu_argv("ncu", Path("/data/100%p/report"), ["x"], PLAIN)


def test_hostile_texts_stay_single_arguments():
    argv = ncu_argv(
        "ncu", Path("r"), ["./a b;rm -rf ~", "$(id)"], PLAIN, Filters(kernel="a; rm -rf $HOME|`id`", without="")
    )
    assert argv[-2:] == ["./a b;rm -rf ~", "$(id)"]
    assert "regex:a; rm -rf $HOME|`id`" in argv


@pytest.mark.parametrize("program", [[], ["--export"]])
def test_what_would_be_an_option_is_no_program(program):
    with pytest.raises(UsageError, match="not a program"):
        ncu_argv("ncu", Path("r"), program, PLAIN)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"kernel": "("}, "not a regular expression"),
        ({"skip": -1}, "fewer than none"),
        ({"count": 0}, "nothing would be profiled"),
    ],
)
def test_impossible_filters_are_refused(values, why):
    with pytest.raises(UsageError, match=why):
        Filters(**values)


def test_an_unknown_value_of_an_option_of_ncu_is_refused():
    with pytest.raises(UsageError, match="--clock-control 'boost'"):
        require_options([("clock-control", "boost")])


WAIT = """ncclDevKernel_AllReduce_Sum_bf16_RING_LL ncclKernel_AllReduce_RING_LL_Sum_float nvshmemi_reduce_kernel
ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32 barrier_on_stream_kernel_threadgroup multimem_all_reduce_kernel
vllm::cross_device_reduce_1stage two_shot_all_reduce_kernel oneShotAllReduceKernel twoshotAllreduceKernel
allreduce_fusion_kernel_oneshot_lamport userbuffers_fp16_sum_inplace_gpu_rr helixAllToAllKernel moeAllToAllKernel
lamport_style_one_shot_all_reduce_norm_kernel one_shot_prenorm_all_reduce_norm_kernel oneshotAllreduceFusionKernel
moereduce_allreduce_fusion_kernel_oneshot_lamport moefinalize_allreduce_fusion_kernel_oneshot_lamport
allgather_kernel fused_reducescatter_allreduce_kernel moeA2ADispatchKernel moeA2ACombineKernel
minimax_reduce_rms_kernel_lamport deep_ep::legacy::internode_ll::dispatch deep_ep::intranode::combine
deep_ep::elastic::hybrid_dispatch_impl mscclpp::collective::allreduceNvls c10d::symmetric_memory::barrier_kernel
c10d::nvshmem_extension::allToAllV"""
"""Of NCCL, NVSHMEM, Transformer Engine, vLLM, PyTorch (CUDASymmetricMemory.cu, its Ops.cu,
nvshmem_extension.cu), FlashInfer (include/flashinfer/comm), TensorRT-LLM
(kernels/communicationKernels), DeepEP (csrc/kernels, deep_ep/include) and MSCCL++
(src/ext/collectives)."""
INNOCENT = """gemm_nccl_overlapped reduce_kernel multi_tensor_apply_kernel all_reduce block_all_reduce_sum_f32_kernel
warp_allreduce_kernel dispatch combine barrier_kernel moeA2APrepareDispatchKernel reduce_scatter_rows allreduce"""


def test_kernels_that_wait_for_other_gpus_do_not_count():
    sglang = "void allreduce_1shotLL_1node<float>(int, mscclpp::MemoryChannelDeviceHandle*)"
    assert not Filters().chooses(sglang, "allreduce_1shotLL_1node"), "a parameter tells"
    for path in WAIT.split():
        name, kernel = f"void {path}<float, 2>(ns::Arguments<4096ul>)", path.rpartition("::")[2]
        for filters in (Filters(), Filters(kernel="."), Filters(kernel=kernel[:6])):
            assert not filters.chooses(name, kernel) and not re.search(filters.names, name), name
            assert filters.name_base == "demangled"
        assert Filters(kernel=kernel[:6], without="").chooses(name, kernel)
    for kernel in INNOCENT.split():
        name = f"void at::native::{kernel}<float, std::array<char*, 2ul>>(ncclComm*)"
        assert Filters().chooses(name, kernel) and re.search(Filters().names, name)
    assert Filters(kernel="^k$").name_base == "function" == Filters(without="^k").name_base
    assert Filters("gemm").of("k") == Filters("gemm"), "kernels of an own program count, even if they wait"
    assert (Filters(without="x").of("k").left_out, Filters().of("allreduce_kernel").names) == ("x", "allreduce_kernel")


@pytest.mark.parametrize("indexed", [True, False])
def test_an_application_that_is_replayed_counts_its_passes(indexed):
    log = NcuLog()
    for number, index in itertools.product((1, 2, 3), range(2)):
        told = f'"gemm"{f" - {index}" if indexed else ""}: Application replay pass {number}'
        log.feed("stdout", f"==PROF== Profiling {told}\n")
    log.feed("stdout", "==PROF== Creating report from application replay data: 0%....100%\n")
    assert log.profiled == [ReplayedLaunch("gemm", 0, 0, 3), ReplayedLaunch("gemm", 1, 0, 3)]


def test_progress_is_reported_while_the_line_grows():
    seen = []
    log = NcuLog(on_launch=seen.append)
    for piece in ('==PROF== Profiling "ge', 'mm" - 3: 0%..', "..50%..", "..100% - 10 passes\n"):
        log.feed("stdout", piece)
    assert [(launch.percent, launch.passes) for launch in seen] == [(20, None), (70, None), (100, 10)]
    assert log.profiled == [ReplayedLaunch("gemm", 3, 100, 10)]


@pytest.mark.parametrize(
    ("progress", "percent"),
    [("0%....50%.. ...", 70), ("0%....50%....100%.", 100), ("0%....105%", 100), ("90%..", 100)],
)
def test_dots_behind_the_figures_are_no_progress_and_no_launch_is_more_than_done(progress, percent):
    log = fed(f'==PROF== Profiling "gemm" - 3: {progress}')
    assert [launch.percent for launch in log.launches.values()] == [percent]


def test_progress_with_a_total_and_a_name_full_of_punctuation():
    log = fed('==PROF== Profiling "void f<a::b, (int)4>(\\"x\\")" - 0 (1/2): 0%....50%....100% - 1 pass\n')
    assert log.profiled == [ReplayedLaunch('void f<a::b, (int)4>(\\"x\\")', 0, 100, 1)]


def test_every_cut_of_the_output_gives_the_same_log():
    text = 'hello\n==PROF== Profiling "k" - 0: 0%....50%....100% - 9 passes\nbye\n==PROF== Report: /tmp/r.ncu-rep\n'
    whole = fed(text)
    for cut in range(len(text)):
        log = fed(text[:cut], text[cut:])
        assert (log.profiled, log.report, list(log.tail["stdout"])) == (
            whole.profiled,
            whole.report,
            list(whole.tail["stdout"]),
        )


def test_the_program_and_ncu_are_kept_apart_even_on_one_line():
    log = fed("loss 0.1==WARNING== Slow\n", "after\n")
    assert list(log.tail["stdout"]) == ["loss 0.1", "after"]
    assert log.warnings == ["Slow"]


def test_a_launch_that_did_not_end_is_not_profiled():
    assert fed('==PROF== Profiling "k" - 0: 0%....50%').profiled == []


PROFILED = '==PROF== Profiling "k" - 0: 0%....50%....100% - 9 passes\n'


@pytest.mark.parametrize(
    ("text", "status", "kind", "says"),
    [
        (
            "ERR_NVGPUCTRPERM - no permission",
            1,
            failures.CounterPermissionError,
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("Cuda driver is not compatible with Nsight Compute.", 1, failures.NoGpuError, "Cuda driver"),
        ("Failed to open /tmp/nsight-compute-lock", 1, failures.MachineError, "TMPDIR"),
        ("Profiling failed: someone is concurrently collecting", 1, failures.MachineError, "dcgmi"),
        ("Failed to find metric regex:^x$", 1, failures.NcuRejectedError, "regex:^x$"),
        (
            "Option '--section NoSuchSection' did not match any section.",
            1,
            failures.NcuRejectedError,
            "NoSuchSection",
        ),
        ('OutOfMemory\n==ERROR== Failed to profile "k" in process 1', 9, failures.ReplayError, "OutOfMemory"),
        ("The application returned an error code (4).", 4, failures.ProgramFailedError, "exit code 4"),
        (
            "LaunchFailed\n==ERROR== The application returned an error code (9).",
            9,
            MeasurementError,
            "sanitizer",
        ),
        ("Something new", 1, failures.NcuFailedError, "Something new"),
    ],
)
@pytest.mark.parametrize("profiled", ["", PROFILED])
def test_failures_are_told_apart_by_the_words_of_ncu(profiled, text, status, kind, says):
    problem = failure(fed(f"{profiled}==ERROR== {text}\n"), status, "kernel 'k'")
    assert type(problem) is kind and says in str(problem)
    assert problem.remedy and problem.exit_code == (2 if kind is failures.NcuRejectedError else 3)


def test_a_run_without_an_error_fails_where_nothing_was_profiled():
    assert failure(fed(PROFILED), 0, "") is None
    problem = failure(fed("==WARNING== No kernels were profiled.\n"), 0, "kernel 'k'")
    assert isinstance(problem, failures.NoKernelError) and "launched no kernel" in str(problem)


def test_no_kernel_matched_lists_those_that_ran():
    text = "==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. softmax\n2. void scale<float>(int)\n"
    problem = failure(fed(text), 0, "kernel regex 'gemm'")
    assert isinstance(problem, failures.NoKernelError)
    assert problem.ran == ("softmax", "void scale<float>(int)")


def test_a_numbered_line_of_the_program_is_no_kernel_that_could_be_profiled():
    log = fed("1. load the data\nAvailable Kernels:\n1. softmax\n")
    assert log.available == ["softmax"]
    assert list(log.tail["stdout"]) == ["1. load the data"]


def test_raw_page_tells_which_metrics_have_no_value():
    page = '==PROF== x\n"ID","Kernel Name","a__b.sum","c__d.avg","e__f.sum"\n"","","inst","",""\n'
    launches = raw_page(page + '"0","k, with comma","1,024","n/a",""\n"1","k","3","n/a","7"\n')
    values = [{name: value for name, value in launch.items() if "__" in name} for launch in launches or ()]
    assert values == [{"a__b.sum": "1,024"}, {"a__b.sum": "3", "e__f.sum": "7"}]


def test_output_without_a_table_is_not_understood():
    assert raw_page("==WARNING== nothing here\n") is None


def test_launches_without_an_index_are_counted():
    line = '==PROF== Profiling "{}": 0%....50%....100% - {} passes\n'
    log = fed(line.format("a", 20), "out\n", line.format("b", 9))
    assert [(launch.kernel, launch.index, launch.passes) for launch in log.profiled] == [("a", 0, 20), ("b", 1, 9)]
    assert fed('==PROF== Profiling "a": 0%....50%..').launches[0].percent == 70
