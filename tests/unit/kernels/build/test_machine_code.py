"""Machine code of every CUDA kernel, compiled for Ampere and Hopper, is what its spec promises."""

from __future__ import annotations

from collections import Counter

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import broken_promises, build, disassemble, occurs, opcodes
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.usefixtures("compiler")

ARCHITECTURES = ("sm_80", "sm_90a")
CASES = [
    ("tiled_matmul", {}),
    *[("async_pipeline", {"stages": stages}) for stages in (2, 3, 6)],
    ("async_pipeline", {"stages": 4, "threads": 128}),
    *[("tensor_core_gemm", {"stages": stages}) for stages in (1, 2, 3, 6)],
    ("tensor_core_gemm", {"stages": 1, "vec": 4}),
    ("tensor_core_gemm", {"stages": 3, "vec": 4}),
    ("tensor_core_gemm", {"stages": 1, "copy": "plain"}),
    ("tensor_core_gemm", {"stages": 6, "copy": "plain", "vec": 4}),
    ("softmax_online", {}),
    ("softmax_online", {"threads": 1024, "items": 2, "stages": 1}),
    ("softmax_online", {"threads": 128, "items": 4, "stages": 8}),
    ("softmax_online", {"path": "registers"}),
    ("softmax_online", {"path": "registers", "threads": 128}),
    ("async_copy_manual", {"stages": 1}),
    ("async_copy_manual", {}),
    ("async_copy_pipeline", {}),
    ("async_copy_coop", {"stages": 1}),
    ("async_copy_coop", {}),
    ("async_copy_tma", {}),
    ("async_copy_tma", {"path": "bulk", "stages": 1}),
    ("gemm_mma_swizzled", {}),
    ("gemm_mma_swizzled", {"tile_n": 128, "tile_k": 32}),
    ("gemm_mma_swizzled", {"layout": "plain"}),
    ("gemm_tma", {}),
    ("gemm_tma", {"stages": 1}),
    ("gemm_ws", {}),
    ("gemm_ws", {"stages": 3, "cluster": 1, "walk": "snake"}),
    ("gemm_ws", {"stages": 5, "tile_n": 128, "schedule": "pingpong"}),
    ("gemm_fp8", {}),
    ("gemm_fp8", {"stages": 6, "tile_n": 128, "schedule": "pingpong", "cluster": 1}),
    ("gemm_fp8", {"stages": 6, "tile_n": 128, "accumulate": "promoted"}),
    ("gemm_fp8", {"stages": 6, "tile_n": 128, "accumulate": "promoted", "scaling": "block"}),
    ("gemm_ws", {"stages": 5, "tile_n": 192, "schedule": "pingpong", "cluster": 1}),
    ("gemm_ws", {"tile_m": 176, "tile_n": 192, "form": "turned"}),
    ("gemm_ws", {"tile_m": 152, "form": "turned", "cluster": 1}),
    ("gemm_ws", {"stages": 5, "tile_m": 184, "tile_n": 128, "form": "turned", "schedule": "pingpong", "cluster": 1}),
    ("attention_scalar", {}),
    ("attention_scalar", {"copy": "plain", "stages": 1}),
    ("attention_scalar", {"keys": 128}),
    ("attention_scalar", {"rows": 1}),
    ("attention_fwd", {}),
    ("attention_fwd", {"causal": 1}),
    ("attention_fwd", {"path": "cp_async"}),
    ("sdpa_fp8_stage_c_wmma", {"use_cp_async": 0}),
    ("sdpa_fp8_stage_c_wmma", {"use_cp_async": 1}),
    ("warp_specialized", {"slots": 2}),
    ("warp_specialized", {"slots": 4}),
    ("warp_specialized", {"roles": "fused", "slots": 2}),
    ("cluster_dsmem", {}),
    ("cluster_dsmem", {"share": "none"}),
    ("cluster_dsmem", {"share": "split", "cluster": 8}),
    ("persistent", {}),
    ("persistent", {"mode": "many", "threads": 128}),
    ("grid_sync", {}),
    ("grid_sync", {"mode": "many"}),
    ("stream_pipeline", {"work": 2048}),
    ("kv_layers", {}),
    ("tensor_core_gemm", {"stages": 1, "ablate": "copy_sync"}),
    ("tensor_core_gemm", {"stages": 3, "ablate": "smem"}),
    ("async_pipeline", {"stages": 3, "ablate": "all"}),
    ("gemm_mma_swizzled", {"ablate": "sync"}),
    ("gemm_mma_swizzled", {"ablate": "copy_smem"}),
    ("gemm_tma", {"ablate": "wait_sync"}),
    ("gemm_tma", {"ablate": "copy_sync_epilogue"}),
    ("gemm_ws", {"ablate": "copy_epilogue"}),
    ("attention_fp8", {}),
    ("attention_fp8", {"accumulate": "fast", "causal": 1}),
    ("warp_pipeline", {}),
    ("peer_pipeline", {}),
    ("event_graph", {}),
    ("stream_priority", {}),
]
PRODUCTS = ("HMMA", "HGMMA", "FFMA")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("name", "parameters"), CASES, ids=lambda value: str(value).replace(" ", ""))
def test_machine_code_is_what_the_spec_promises(name, parameters, arch):
    case = make_case(find_spec(name), parameters)
    if arch == "sm_80" and case.min_arch > 80:
        with pytest.raises(UsageError, match="sm_90"):
            build(case, arch)
        return
    assert broken_promises(case, arch, build(case, arch)) == []


@pytest.mark.parametrize(("name", "parameters"), [item for item in CASES if "ablate" in item[1]], ids=str)
def test_an_ablation_keeps_the_products_and_leaves_out_barriers(name, parameters):
    whole = {key: value for key, value in parameters.items() if key != "ablate"}
    before, after = (
        opcodes(disassemble(build(make_case(find_spec(name), chosen), "sm_90a").cubin))
        for chosen in (whole, parameters)
    )

    def count(found, *families):
        return sum(number for opcode, number in found.items() if opcode.split(".")[0] in families)

    # No loop is unrolled further, so that what stands in the code is what a tile takes.
    assert count(after, *PRODUCTS) == count(before, *PRODUCTS) > 0
    sync = "sync" in parameters["ablate"] or parameters["ablate"] == "all"
    assert (count(after, "BAR") < count(before, "BAR")) == sync


def test_every_cuda_kernel_is_covered_and_promises_something():
    cuda = {spec.name for spec in SPECS if spec.language != "numba"}
    assert {name for name, _ in CASES} == cuda
    assert all(make_case(spec).sass("sm_90a") for spec in SPECS if spec.name in cuda)


def test_code_that_breaks_a_promise_is_told():
    plain = make_case(find_spec("tensor_core_gemm"), {"copy": "plain"})
    asynchronous = make_case(find_spec("tensor_core_gemm"))
    broken = broken_promises(asynchronous, "sm_80", build(plain, "sm_80"))
    assert any("LDGSTS is missing" in text for text in broken)
    assert any("STS must not occur" in text for text in broken)


def test_opcodes_are_read_with_predicates_and_modifiers():
    sass = """
        /*0010*/                   LDGSTS.E.BYPASS.128 [R5], [R2.64] ;
        /*0020*/              @!P0 BRA `(.L_x_1) ;
        /*0030*/             @UP0  UMOV UR4, 0x1 ;
        /*0040*/                   LDG.E.128 R4, [R2.64] ;
        /*0050*/              @!PT LDS RZ, [RZ] ;
    """
    assert opcodes(sass) == Counter({"LDGSTS.E.BYPASS.128": 1, "BRA": 1, "UMOV": 1, "LDG.E.128": 1}), "LDS never runs"


def test_a_prefix_ends_at_a_dot():
    found = Counter({"LDGSTS.E": 1})
    assert occurs("LDGSTS", found)
    assert not occurs("LDG", found)
