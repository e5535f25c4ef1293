"""Attention on a real GPU: right over paths, masks, head dims, remainders of tokens, ring depths
and repeated launches; how far off; and how fast."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import time_in_rounds
from ncubble.kernels.run.device import Gpu, occupancy
from ncubble.kernels.run.gates import gates_of, run_acceptance
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.verify import choose_rows, draw_inputs
from ncubble.kernels.spec.case import make_case
from tests.helpers.on_gpu import compile_all, launched, verified

pytestmark = pytest.mark.gpu

DIMS = (64, 128)
STAGES = (2, 3, 4, 5, 6)
# One token; tiles of 64, 128 and 192 queries or keys, one short of full, full and one over; several
# tiles with a remainder; a token count that is no multiple of 8.
TOKENS = (1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 257, 1000, 1023)
FEWER = (1, 129, 193, 1023)
FWD, FP8, BYTES = "attention_fwd", "attention_fp8", "sdpa_fp8_stage_c_wmma"
PATHS = [(FWD, {"path": path, "causal": causal, "stages": 4}) for path in ("cp_async", "tma") for causal in (0, 1)]
PROMOTED, FAST = {"accumulate": "promoted"}, {"accumulate": "fast"}
WIDE = {**FAST, "keys": 192, "polynomial": 4}  # 128 elements per head only
WAYS = [
    (FP8, {**way, "causal": causal}) for way in (PROMOTED, FAST, {**PROMOTED, "keys": 64}, WIDE) for causal in (0, 1)
]
TRIED = [
    (name, parameters, dim)
    for name, parameters in (*PATHS, *WAYS)
    for dim in DIMS
    if dim == 128 or parameters.get("keys") != 192
]
CAUSAL = [item for item in TRIED if item[1]["causal"]]


def shape_of(batch, heads, tokens, dim):
    return {"batch": batch, "heads": heads, "tokens": tokens, "dim": dim}


@pytest.fixture(scope="module")
def _built():
    rings = [(FWD, {"path": path, "causal": 1, "stages": one}) for path in ("cp_async", "tma") for one in STAGES]
    compile_all([(name, parameters, {"dim": dim}) for name, parameters, dim in TRIED])
    compile_all([(name, parameters, {"dim": dim}) for name, parameters in rings for dim in DIMS])


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize(("name", "parameters", "dim"), TRIED, ids=str)
def test_any_number_of_tokens(name, parameters, dim):
    every = name == FWD or (parameters["accumulate"] == "promoted" and "keys" not in parameters)
    for tokens in TOKENS if every else FEWER:
        verified(name, parameters, shape_of(1, 3, tokens, dim), seed=tokens)


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("path", ["cp_async", "tma"])
def test_any_depth_of_the_ring(path, stages, dim):
    verified(FWD, {"path": path, "causal": 1, "stages": stages}, shape_of(1, 2, 1500, dim), seed=stages)


@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize(("name", "parameters", "dim"), TRIED, ids=str)
def test_several_tiles_a_cta_and_every_launch_finds_its_counters_as_the_first_did(name, parameters, dim):
    """From sections of heads of which the last is not full."""
    launched(make_case(find_spec(name), parameters, shape_of(2, 29, 530, dim)), 5, launches=3)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("path", "causal"), [("cp_async", 0), ("cp_async", 1), ("tma", 0), ("tma", 1)])
def test_grouped_queries(path, causal, dim):
    """Every head has keys of its own or shares them with its neighbours; sections of heads, the
    last not full, and several batches."""
    for group, heads in ((4, 8), (7, 28), (16, 16)):
        verified(FWD, {"path": path, "causal": causal, "group": group}, shape_of(2, heads, 333, dim), seed=group)


@pytest.mark.parametrize("causal", [0, 1])
def test_long_heads(causal):
    """More keys than a section of heads may hold in L2: a section is one head then."""
    verified(FWD, {"path": "tma", "causal": causal}, shape_of(1, 1, 40000, 128), seed=7)


@pytest.mark.parametrize(("name", "parameters"), PATHS, ids=str)
def test_the_default_shape(name, parameters):
    verified(name, parameters)


@pytest.mark.parametrize(("name", "parameters", "dim"), CAUSAL, ids=str)
@pytest.mark.parametrize("factor", [1e-3, 30.0])
def test_scores_of_any_size_give_finite_results(name, parameters, dim, factor):
    """One key beats all others by far, then none does: the running maximum leaps, and the sum
    nearly vanishes."""

    def change(inputs):
        scaled = "scale_q" if name == FP8 else "q"
        inputs[scaled] = (inputs[scaled].astype("float32") * np.float32(factor)).astype(inputs[scaled].dtype)

    launched(make_case(find_spec(name), parameters, shape_of(1, 2, 777, dim)), 11, change)


@pytest.mark.parametrize(("name", "parameters", "dim"), [item for item in CAUSAL if item[0] == FP8], ids=str)
@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_of_one_sign(name, parameters, dim, sign):
    """Maxima are compared as integers, which is right for those that are not negative: a warp with
    others looks for the least integer. Here no warp does, or every one."""

    def change(inputs):
        for one, factor in (("q", 1), ("k", sign)):
            inputs[one] = (factor * np.abs(inputs[one].astype(np.float32))).astype(inputs[one].dtype)

    launched(make_case(find_spec(name), parameters, shape_of(1, 3, 385, dim)), 7, change)


def test_a_ring_that_does_not_fit_is_refused_before_launch(monkeypatch):
    with closing(Gpu.open()) as gpu:
        monkeypatch.setattr(gpu, "facts", replace(gpu.facts, smem_per_cta=100_000))
        with pytest.raises(UsageError, match="bytes of shared memory per CTA"):
            prepare(make_case(find_spec(FWD)), gpu)


@pytest.mark.parametrize("causal", [0, 1])
def test_it_reaches_nine_tenths_of_cudnn(causal):
    pytest.importorskip("torch")
    outcome = verified(FWD, {"path": "tma", "causal": causal}, iterations=100, against=True)
    assert outcome.against.max_abs_difference < 0.02
    assert outcome.against.ratio >= 0.9


def relative_rms(way, positive):
    """Root mean square of the errors over that of the results, by rows; V of one sign or not."""

    def change(inputs):
        if positive:
            inputs["v"] = np.abs(inputs["v"].astype(np.float32)).astype(inputs["v"].dtype)

    case = make_case(find_spec(FP8), way, shape_of(1, 2, 4096, 128))
    inputs, outputs = launched(case, 3, change)
    rows = choose_rows(case, 3)
    reference = case.reference(inputs, rows)["out"]
    error = outputs["out"].reshape(-1, 128)[rows].astype(np.float64) - reference
    return float(np.sqrt((error**2).mean() / (reference**2).mean()))


def test_errors_are_those_of_rounding_p_and_values_of_one_sign_show_what_tensor_cores_cut_off():
    assert relative_rms(PROMOTED, positive=False) == pytest.approx(0.026, abs=0.002)
    assert relative_rms(PROMOTED, positive=True) < 0.005
    assert relative_rms(FAST, positive=True) > 0.02


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("dim", "tokens", "least"), [(128, 1024, 1.2), (128, 4096, 1.2), (64, 4096, 1.1)])
def test_it_is_faster_on_e4m3_than_in_bfloat16(dim, tokens, least, causal):
    """The target is 1.2; 64 elements per head miss it."""
    shape = shape_of(2**21 // (tokens * dim), 16, tokens, dim)
    with closing(Gpu.open()) as gpu:
        sides = []
        for name in (FWD, FP8):
            prepared = prepare(make_case(find_spec(name), {"causal": causal}, shape), gpu)
            prepared.upload(draw_inputs(prepared.case, 1))
            sides.append(prepared.run)
        bfloat16, e4m3 = time_in_rounds(gpu, sides)
    assert bfloat16.timing.p50_us / e4m3.timing.p50_us >= least


# In scalar code.

SCALAR = [
    *({"copy": "plain", "stages": 1, "keys": keys, "rows": rows} for keys in (64, 128) for rows in (1, 16)),
    *({"copy": "async", "stages": 2, "keys": keys, "rows": rows} for keys in (64, 128) for rows in (1, 4, 8, 16)),
    {"copy": "plain", "stages": 2, "keys": 64, "rows": 8},
    {"copy": "async", "stages": 1, "keys": 128, "rows": 8},
    {"copy": "async", "stages": 4, "keys": 64, "rows": 4},
    *({"copy": copy, "stages": stages, "rows": 4} for copy in ("pipeline", "tma") for stages in (1, 2, 4)),
    *({"copy": copy, "keys": 128} for copy in ("pipeline", "tma")),
]


@pytest.mark.parametrize("parameters", SCALAR, ids=str)
def test_scalar_attention(parameters):
    for dim, tokens in ((64, 1), (64, 300), (128, 64), (128, 333)):
        verified("attention_scalar", parameters, shape_of(2, 3, tokens, dim))


@pytest.mark.parametrize("copy", ["plain", "async", "pipeline", "tma"])
def test_all_phases_of_scalar_attention_exceed_what_document_004_calls_excellent(copy):
    parameters = {"copy": copy, "stages": 1 if copy == "plain" else 2}
    assert verified("attention_scalar", parameters, iterations=100).rates.tflops >= 15


# Over keys and values in bytes: both paths right and alike, and their gates.

BOTH = pytest.mark.parametrize("path", [0, 1])


@BOTH
@pytest.mark.parametrize("pv", ["wmma", "scalar"])
def test_any_sequence_length(path, pv):
    for s in (1, 2, 16, 31, 32, 33, 63, 64, 65, 100, 511, 512, 513, 2048):
        verified(BYTES, {"use_cp_async": path, "pv": pv}, {"b": 1, "h": 3, "s": s}, seed=s)


@BOTH
@pytest.mark.parametrize("d", [16, 32, 48, 64])
def test_heads_narrower_than_the_padded_tile(path, d):
    for s, pv in ((7, "wmma"), (70, "scalar"), (160, "wmma")):
        verified(BYTES, {"use_cp_async": path, "pv": pv}, {"b": 2, "h": 5, "s": s, "d": d}, seed=d)


@BOTH
@pytest.mark.parametrize("shape", [{"b": 1, "h": 8, "s": 512}, {"b": 4, "h": 16, "s": 1024}], ids=str)
def test_seeds(path, shape):
    for seed in (0, 1, 2):
        verified(BYTES, {"use_cp_async": path}, shape, seed=seed)


@pytest.mark.parametrize("shape", [{"s": 512}, {"s": 77, "d": 32}], ids=str)
def test_both_paths_agree_bit_for_bit(shape):
    one, other = (launched(make_case(find_spec(BYTES), {"use_cp_async": path}, shape), 11)[1] for path in (0, 1))
    assert one["out"].tobytes() == other["out"].tobytes()


def test_the_gates():
    outcome = run_acceptance(BYTES, gates_of(BYTES))
    outcome.require()
    assert len(outcome.checks) == 12
    assert outcome.gain_pct is not None


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        (BYTES, {"use_cp_async": 0}),
        (BYTES, {"use_cp_async": 1}),
        ("tensor_core_gemm", {"stages": 1}),
        ("tensor_core_gemm", {"stages": 6}),
        ("async_pipeline", {"stages": 6, "threads": 128}),
        ("softmax_online", {"threads": 1024}),
        ("warp_specialized", {"slots": 4}),
    ],
    ids=str,
)
def test_occupancy_is_what_the_driver_says(name, parameters):
    case = make_case(find_spec(name), parameters)
    with closing(Gpu.open()) as gpu:
        built = build(case, gpu.arch)
        threads, used = case.block[0], built.resources
        found = occupancy(gpu.facts.compute_capability, threads, used.registers, used.smem_static_B + case.smem)
        kernel = gpu.load(built.cubin, case)
        assert found.ctas == kernel.occupancy.max_active_blocks_per_multiprocessor(threads, case.smem)


AT_ONCE = """
import sys
from ncubble.errors import MeasurementError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.spec.case import make_case

gpu = Gpu.open()
case = make_case(find_spec(sys.argv[1]), {"causal": 1}, {"batch": 1, "heads": 4, "tokens": 2048, "dim": 128})
prepared = prepare(case, gpu)
streams = [gpu.stream, gpu._device.create_stream()]
prepared.run()  # what a launch leaves behind is right for the next one
gpu.sync()
for _ in range(200):
    for gpu.stream in streams if sys.argv[2] == "both" else streams[:1]:
        prepared.run()
try:
    for gpu.stream in streams:
        gpu.sync()
except MeasurementError as error:
    print("failed:", error.message)
else:
    print("passed")
"""


@pytest.mark.parametrize(("streams", "said"), [("one", "passed"), ("both", "failed: ")])
@pytest.mark.parametrize("name", [FWD, FP8])
def test_launches_at_one_time_end_with_an_error_and_skip_no_tile_in_silence(name: str, streams: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, name, streams], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.startswith(said), done.stdout + done.stderr
