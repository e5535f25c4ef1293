// wgmma on e4m3 (SASS: QGMMA): D (64 x N) += A (64 x 32) x B (32 x N), sm_90a only. 8-bit operands take half the bytes
// of 16-bit ones and twice the depth per product, in as many cycles.
//
// Both operands are K-major (there is no transpose for 8 bits): A is stored as (m, k), B as (n, k), rows of 128 bytes =
// 128 elements along k, swizzled and described as with 16-bit elements (wgmma_descriptor_k, Major::kK in wgmma.cuh); a
// product is 32 bytes deep there, too, so wgmma_advance<Major::kK> steps from one to the next. Fences, groups and waits
// are those of wgmma.cuh, and D lies in the same registers.
// A in registers: lane l of warp w holds rows 16 w + l / 4 and 8 below; four registers of four elements each, the lowest
// byte first: upper row k 4 (l % 4) .. + 3, lower row the same, upper row 16 further, lower row 16 further.
// Precision: products are summed with few bits more than those of half: about 14, aligned to the largest term of the
// sum, the accumulator included. Long sums in the tensor cores lose accordingly (gemm_fp8 measures how much).
// PTX ISA: https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-register-fragment-wgmma-64n32
#pragma once

#include <cstdint>

#include "wgmma.cuh"

namespace ncubble {

// The operands after D are numbered from R = N / 2 on: A (one descriptor, or four registers), B, whether to accumulate.
#define NCUBBLE_WGMMA_E4M3_SHARED(N, R, R1, R2)                                                                   \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #R2 ", 0;\n\t"                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" NCUBBLE_D##R                        \
                 "}, %" #R ", %" #R1 ", p, 1, 1;\n\t}"                                                            \
                 : NCUBBLE_F##R(d)                                                                                \
                 : "l"(a), "l"(b), "r"(int(accumulate)))
#define NCUBBLE_WGMMA_E4M3_REGISTERS(N, R, R1, R2, R3, R4, R5)                                                    \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #R5 ", 0;\n\t"                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" NCUBBLE_D##R                        \
                 "}, {%" #R ", %" #R1 ", %" #R2 ", %" #R3 "}, %" #R4 ", p, 1, 1;\n\t}"                            \
                 : NCUBBLE_F##R(d)                                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)))

// d (+)= A x B with both operands in shared memory, given by descriptors; N = 2 x kRegisters. Without `accumulate` d is
// overwritten.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma
template <int kRegisters>
__device__ __forceinline__ void wgmma_e4m3(float (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(kRegisters == 32 || kRegisters == 64 || kRegisters == 96 || kRegisters == 128);
    if constexpr (kRegisters == 32) {
        NCUBBLE_WGMMA_E4M3_SHARED(64, 32, 33, 34);
    } else if constexpr (kRegisters == 64) {
        NCUBBLE_WGMMA_E4M3_SHARED(128, 64, 65, 66);
    } else if constexpr (kRegisters == 96) {
        NCUBBLE_WGMMA_E4M3_SHARED(192, 96, 97, 98);
    } else {
        NCUBBLE_WGMMA_E4M3_SHARED(256, 128, 129, 130);
    }
}

// The same with A in registers: 64 x 32, four registers per thread (see the top). They must not change before the wait.
template <int kRegisters>
__device__ __forceinline__ void wgmma_e4m3(float (&d)[kRegisters], const uint32_t (&a)[4], uint64_t b,
                                           bool accumulate) {
    static_assert(kRegisters == 32 || kRegisters == 64 || kRegisters == 96 || kRegisters == 128);
    if constexpr (kRegisters == 32) {
        NCUBBLE_WGMMA_E4M3_REGISTERS(64, 32, 33, 34, 35, 36, 37);
    } else if constexpr (kRegisters == 64) {
        NCUBBLE_WGMMA_E4M3_REGISTERS(128, 64, 65, 66, 67, 68, 69);
    } else if constexpr (kRegisters == 96) {
        NCUBBLE_WGMMA_E4M3_REGISTERS(192, 96, 97, 98, 99, 100, 101);
    } else {
        NCUBBLE_WGMMA_E4M3_REGISTERS(256, 128, 129, 130, 131, 132, 133);
    }
}

// Starts the products of a stage of 128 along k, a 128-byte row, as one group: d = A x B, or += with `accumulate`.
// a: kBlocks x 64 rows of A, b: 2 x kRegisters of B, both in a row.
template <int kBlocks, int kRegisters>
__device__ __forceinline__ void wgmma_e4m3_stage(float (&d)[kBlocks][kRegisters], const unsigned char* a,
                                                 const unsigned char* b, bool accumulate) {
    const uint64_t columns = wgmma_descriptor_k(b);
    wgmma_fence();
#pragma unroll
    for (int product = 0; product < 128 / 32; ++product) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
            const uint64_t rows = wgmma_descriptor_k(a + block * 64 * 128);
            wgmma_e4m3(d[block], wgmma_advance<Major::kK>(rows, product), wgmma_advance<Major::kK>(columns, product),
                       accumulate || product > 0);
        }
    }
    wgmma_commit();
}

#undef NCUBBLE_WGMMA_E4M3_REGISTERS
#undef NCUBBLE_WGMMA_E4M3_SHARED

}  // namespace ncubble
