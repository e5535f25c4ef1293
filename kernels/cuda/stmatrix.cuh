// stmatrix (SASS: STSM): a warp stores 8 x 8 matrices of 16-bit elements to shared memory. Compute capability 9.0 and
// later.
#pragma once

#include <cstdint>

namespace ncubble {

// Stores four matrices, one register per matrix and lane: lane 4 g + q holds elements 2 q and 2 q + 1 of row g, which
// is how mma and wgmma leave their results. Lane 8 i + r gives the shared address of row r of matrix i (16 bytes,
// 16-byte aligned).
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions-stmatrix
__device__ __forceinline__ void stmatrix_x4(uint32_t shared, const uint32_t (&matrices)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(matrices[0]),
                 "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
                 : "memory");
}

// The same for four or two matrices, each turned: lane 8 i + r gives the address of what was column r of matrix i.
__device__ __forceinline__ void stmatrix_x4_turned(uint32_t shared, const uint32_t (&matrices)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
                 "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
                 : "memory");
}
__device__ __forceinline__ void stmatrix_x2_turned(uint32_t shared, const uint32_t (&matrices)[2]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(matrices[0]),
                 "r"(matrices[1])
                 : "memory");
}

}  // namespace ncubble
