// Warp-level matrix instructions: ldmatrix (SASS: LDSM) and mma.sync m16n8k16 with float accumulators (SASS:
// HMMA.16816.F32), compute capability 8.0 and later.
//
// PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions":
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions
//
// Fragments of m16n8k16, for lane = 4 * group + quad (group 0..7, quad 0..3); a register holds two neighbours along k,
// or along n for the accumulator, the lower index in the lower half:
//   A (16 x 16): a[0] row group, k 2 quad | a[1] row group + 8, k 2 quad | a[2] row group, k 2 quad + 8 | a[3] both + 8
//   B (16 x 8):  b[0] k 2 quad, column group | b[1] k 2 quad + 8, column group
//   C (16 x 8):  c[0], c[1] row group, columns 2 quad and 2 quad + 1 | c[2], c[3] row group + 8, the same columns
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace ncubble {

// Loads four 8 x 8 matrices of 16-bit elements from shared memory, one register per matrix and lane. Lane 8 i + r gives
// the address of row r of matrix i (16 bytes, 16-byte aligned); lane 4 g + q receives elements 2 q and 2 q + 1 of row g,
// which are the fragments above where a row runs along k. `_trans` hands out the transposed matrices: for a B whose
// rows run along n.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions-ldmatrix
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&matrices)[4], uint32_t shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(shared)
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&matrices)[4], uint32_t shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(shared)
                 : "memory");
}

// Which row (0..15) and which 16-byte half (0 or 1) of a 16 x 16 tile a lane addresses for ldmatrix_x4, so that the
// matrices arrive in the order upper left, lower left, upper right, lower right:
// - plain, rows along m:  the four registers of an A fragment;
// - _trans, rows along k: b[0], b[1] of the left eight columns, then b[0], b[1] of the right eight.
__device__ __forceinline__ int ldmatrix_row(int lane) { return lane % 16; }
__device__ __forceinline__ int ldmatrix_half(int lane) { return lane / 16; }

// acc += A x B for one 16 x 8 tile and 16 steps of k. Element is half or __nv_bfloat16; the accumulator is float.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions-mma
template <typename Element>
__device__ __forceinline__ void mma_m16n8k16(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void mma_m16n8k16<half>(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0,
                                                            uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace ncubble
