"""Small sources that compile, or do not: what the documents write, what it should be, and what
hardware refuses."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Snippet:
    """A translation unit. ``host``: compiled as host code too (to an object), else for the device
    only (a cubin)."""

    code: str
    arch: str = "sm_90a"
    host: bool = False
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


_PIPELINE = """
__global__ void kernel(const float* x) {
    __shared__ float buffer[256];
    %s
    pipe.producer_acquire();
    cuda::memcpy_async(buffer, x, 256 * sizeof(float), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    pipe.consumer_release();
}
"""
_STATED = """
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
"""
_DEFAULT = "cuda::pipeline<cuda::thread_scope_block> pipe;"
_FACTORY = "cuda::pipeline<cuda::thread_scope_block> pipe = cuda::make_pipeline();"


def _asm(body: str, operands: str) -> str:
    head = "__global__ void kernel(unsigned a, unsigned long long b, int c)"
    return f'{head} {{ asm volatile("{body}" :: {operands}); }}'


def _cp_async(nbytes: int) -> str:
    return _asm(f"cp.async.ca.shared.global [%0], [%1], {nbytes};", '"r"(a), "l"(b)')


def _tensor_copy(spaces: str, arguments: str) -> str:
    name = f"cp.async.bulk.tensor.2d.{spaces}"
    return _asm(f"{name} {arguments};", '"r"(a), "l"(b), "r"(c), "r"(a)')


_FULL = _tensor_copy("shared::cluster.global.tile.mbarrier::complete_tx::bytes", "[%0], [%1, {%2, %2}], [%3]")
_SHORT = _tensor_copy("shared.global.tile.mbarrier", "[%0], [%1, {%2, %2}], [%3]")
_BULK = _asm(
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];", '"r"(a), "l"(b), "r"(a)'
)


def _wmma(a: str, c: str, m: int, n: int, k: int) -> str:
    return f"""
#include <mma.h>
#include <cuda_bf16.h>
using namespace nvcuda;
__global__ void kernel({c}* out) {{
    wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {a}, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {a}, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {c}> c;
    wmma::fill_fragment(c, {c}(0));
    for (int i = 0; i < a.num_elements; ++i) a.x[i] = b.x[i] = decltype(+a.x[0] + a.x[0])(1);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(out, c, {n}, wmma::mem_row_major);
}}
"""


ONE_MMA = """
#include <mma.h>
using namespace nvcuda;
__global__ void kernel(const half* in, float* out) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::load_matrix_sync(a, in, 16);
    wmma::load_matrix_sync(b, in + 256, 16);
    wmma::fill_fragment(c, 0.0f);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
}
"""
_FRAGMENT_ELEMENT = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void kernel(const half* in, float* out) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::load_matrix_sync(a, in, 16);
    out[threadIdx.x] = __half2float(a.x[0]);
}
"""


def _wgmma(a: str, b: str) -> str:
    sources = {"shared": "%4", "registers": "{%5, %5, %5, %5}"}
    second = {"shared": "%4", "registers": "{%5, %5}"}
    transposed = "0" if a == "registers" else "0, 0"
    return f"""
__global__ void kernel(float* out, unsigned long long descriptor, unsigned bits) {{
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%0, %1, %2, %3}}, "
                 "{sources[a]}, {second[b]}, 1, 1, 1, {transposed};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(descriptor), "r"(bits));
    out[threadIdx.x] = d0 + d1 + d2 + d3;
}}
"""


_ENCODE = """
#include <cuda.h>
CUresult encode(CUtensorMap* map, void* base, cuuint64_t* bounds, cuuint64_t* strides, cuuint32_t* box,
                cuuint32_t* steps) {
    return cuTensorMapEncodeTiled(map, %s, 2, %s CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
"""
_MACRO = """
#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "the legacy default stream"
#endif
"""

SNIPPETS: dict[str, Snippet] = {
    "pipeline_default_constructor": Snippet("#include <cuda/pipeline>" + _PIPELINE % _DEFAULT),
    "pipeline_from_cuda_pipeline_h": Snippet("#include <cuda_pipeline.h>" + _PIPELINE % _DEFAULT),
    "pipeline_zero_argument_factory": Snippet("#include <cuda/pipeline>" + _PIPELINE % _FACTORY),
    "pipeline_with_state": Snippet("#include <cooperative_groups.h>\n#include <cuda/pipeline>" + _PIPELINE % _STATED),
    "cp_async_as_a_call": Snippet("__global__ void kernel() { cp.async(wait_all); }"),
    **{f"cp_async_{size}_bytes": Snippet(_cp_async(size)) for size in (2, 4, 8, 16, 32)},
    "cp_async_sm75": Snippet(_cp_async(16), "sm_75"),
    "cp_async_sm80": Snippet(_cp_async(16), "sm_80"),
    "tma_sm80": Snippet(_FULL, "sm_80"),
    "tma_sm90": Snippet(_FULL, "sm_90"),
    "bulk_sm80": Snippet(_BULK, "sm_80"),
    "tma_short_name": Snippet(_SHORT),
    "encode_as_written": Snippet(
        _ENCODE % ("CU_TENSOR_MAP_DATA_TYPE_HALF", "bounds, base, strides, steps,"), host=True
    ),
    "encode_half_type": Snippet(
        "#include <cuda.h>\nCUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_HALF;", host=True
    ),
    "encode_right": Snippet(
        _ENCODE % ("CU_TENSOR_MAP_DATA_TYPE_FLOAT16", "base, bounds, strides, box, steps,"), host=True
    ),
    "encode_runtime_name": Snippet(
        "#include <cuda_runtime.h>\nvoid* encode = (void*)&cudaTensorMapEncodeTiled;", host=True
    ),
    "wmma_half": Snippet(_wmma("half", "float", 16, 16, 16), "sm_80"),
    "wmma_bf16": Snippet(_wmma("__nv_bfloat16", "float", 16, 16, 16), "sm_80"),
    "wmma_tf32": Snippet(_wmma("wmma::precision::tf32", "float", 16, 16, 8), "sm_80"),
    "wmma_double": Snippet(_wmma("double", "double", 8, 8, 4), "sm_80"),
    "wmma_int8": Snippet(_wmma("signed char", "int", 16, 16, 16), "sm_80"),
    "wmma_float": Snippet(_wmma("float", "float", 16, 16, 16), "sm_80"),
    "wmma_element": Snippet(_FRAGMENT_ELEMENT, "sm_80"),
    "wgmma_shared_shared": Snippet(_wgmma("shared", "shared")),
    "wgmma_sm80": Snippet(_wgmma("shared", "shared"), "sm_80"),
    "wgmma_registers_shared": Snippet(_wgmma("registers", "shared")),
    "wgmma_shared_registers": Snippet(_wgmma("shared", "registers")),
    "wgmma_registers_registers": Snippet(_wgmma("registers", "registers")),
    "nvtx_in_kernel": Snippet(
        'extern "C" int nvtxRangePushA(const char*);\n__global__ void kernel() { nvtxRangePushA("phase"); }'
    ),
    "nvtx_old_header": Snippet("#include <nvToolsExt.h>", host=True),
    "static_48_kb": Snippet("__global__ void kernel(char* x) { __shared__ char s[48 << 10]; s[*x] = *x; *x = s[0]; }"),
    "static_64_kb": Snippet("__global__ void kernel(char* x) { __shared__ char s[64 << 10]; s[*x] = *x; *x = s[0]; }"),
    "default_stream_by_environment": Snippet(
        _MACRO, host=True, environment={"CUDA_API_PER_THREAD_DEFAULT_STREAM": "1"}
    ),
    "default_stream_by_flag": Snippet(_MACRO, host=True, flags=("--default-stream", "per-thread")),
    "default_stream_by_macro": Snippet(_MACRO, host=True, flags=("-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1",)),
}
