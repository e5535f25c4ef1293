// layouts: where the elements of a box lie after a TMA load, and those of a WMMA fragment.
//
// load_box:     `map` lies in global memory, 64-byte aligned, written before the launch. One thread loads its box at (x, y, …); every thread
//               copies the bytes out as they lie.
//               Launch: 1 CTA, dynamic shared memory kAlignment + bytes. What no copy wrote stays 0xA5.
// fragment_map: one warp loads a 16 x 16 matrix of half or float numbers and writes element i of lane l to
//               out[l * kMost + i]; elements that a fragment does not have stay as they were.
#include <mma.h>

#include "mbarrier.cuh"
#include "tma.cuh"

using namespace ncubble;
namespace wmma = nvcuda::wmma;

constexpr int kAlignment = 1024, kMost = 16, kSize = 16;

struct Place {
    int x, y, z, w, v;
};

__device__ __forceinline__ void load(void* shared, const TensorMap& map, uint64_t* barrier, int rank, const Place& at) {
    switch (rank) {
        case 1: tma_load(shared, map, barrier, at.x); break;
        case 2: tma_load(shared, map, barrier, at.x, at.y); break;
        case 3: tma_load(shared, map, barrier, at.x, at.y, at.z); break;
        case 4:
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], "
                "[%6];" ::"r"(shared_address(shared)),
                "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w), "r"(shared_address(barrier))
                : "memory");
            break;
        default:
            asm volatile(
                "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, "
                "%6}], [%7];" ::"r"(shared_address(shared)),
                "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w), "r"(at.v), "r"(shared_address(barrier))
                : "memory");
    }
}

extern "C" __global__ void load_box(const TensorMap* map, int rank, int bytes, int x, int y, int z, int w,
                                    int v, unsigned char* out) {
    extern __shared__ unsigned char raw[];
    __shared__ uint64_t barrier;
    auto* box = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(raw) + kAlignment - 1) / kAlignment * kAlignment);
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) box[i] = 0xA5;
    fence_async_proxy();
    if (threadIdx.x == 0) {
        mbarrier_init(&barrier, 1);
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(&barrier, bytes);
        load(box, *map, &barrier, rank, Place{x, y, z, w, v});
    }
    mbarrier_wait(&barrier, 0);
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = box[i];
}

template <typename Fragment>
__device__ __forceinline__ void write_elements(const Fragment& fragment, float* out) {
    static_assert(Fragment::num_elements <= kMost);
    for (int i = 0; i < Fragment::num_elements; ++i) out[threadIdx.x * kMost + i] = static_cast<float>(fragment.x[i]);
}

template <typename Use, typename Layout>
__device__ __forceinline__ void write_operand(const half* matrix, float* out) {
    wmma::fragment<Use, kSize, kSize, kSize, half, Layout> fragment;
    wmma::load_matrix_sync(fragment, matrix, kSize);
    write_elements(fragment, out);
}

// kinds: A by rows, A by columns, B by rows, B by columns, the accumulator. The matrix lies as the kind asks for.
extern "C" __global__ void fragment_map(int kind, const half* matrix, const float* sums, float* out) {
    if (kind == 0) write_operand<wmma::matrix_a, wmma::row_major>(matrix, out);
    if (kind == 1) write_operand<wmma::matrix_a, wmma::col_major>(matrix, out);
    if (kind == 2) write_operand<wmma::matrix_b, wmma::row_major>(matrix, out);
    if (kind == 3) write_operand<wmma::matrix_b, wmma::col_major>(matrix, out);
    if (kind == 4) {
        wmma::fragment<wmma::accumulator, kSize, kSize, kSize, float> fragment;
        wmma::load_matrix_sync(fragment, sums, kSize, wmma::mem_row_major);
        write_elements(fragment, out);
    }
}
