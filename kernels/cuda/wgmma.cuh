// wgmma (SASS: HGMMA): asynchronous matrix products by a warpgroup: D (64 x N) += A (64 x 16) x B (16 x N), sm_90a only.
//
// D is float and lives in registers, A comes from shared memory or from registers, B from shared memory. A product reads
// its operands in the background. The order is
//   wgmma_fence(); wgmma<…>(…), some times; wgmma_commit(); …; wgmma_wait<pending>();
// and then D may be used and the operands overwritten.
// PTX ISA: https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions
//
// D: lane l of warp w holds rows 16 w + l / 4 and 8 below and, of every 8 columns j, columns 8 j + 2 (l % 4) and the
// next one: d[4 j], d[4 j + 1] of the upper row, d[4 j + 2], d[4 j + 3] of the lower.
// A in registers: the same pattern over 16 columns, two elements per register: upper row k 0..7, lower row k 0..7,
// upper row k 8..15, lower row k 8..15. So D, rounded to 16 bits, is A of another product without leaving its threads.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cp_async.cuh"
#include "wgmma_operands.cuh"

namespace ncubble {

// Orders register and shared-memory accesses of the warpgroup before the products that follow; needed before the first
// product and whenever registers of D or A were written by other instructions.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-fence
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-commit-group
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending of the newest groups are unfinished.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving uses of these registers across this point: it does not know that a product writes or
// reads them after its instruction. Put it after the wait that ends the product. Costs no instruction.
template <int kCount>
__device__ __forceinline__ void wgmma_pin(float (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void wgmma_pin(uint32_t (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// How an operand lies in shared memory. Both forms hold 128-byte rows with the 128-byte swizzle of TMA, in atoms of 8
// rows (1024 bytes, aligned to 1024). kK:  a row holds 64 elements along k of one row of A, or of one column of B (B
// stored as (n, k)). kMN: a row holds 64 elements along m (or n) of one k: B stored as (k, n), row-major.
enum class Major { kK = 0, kMN = 1 };

constexpr uint32_t kAtomBytes = 1024;  // 8 rows of 128 bytes
constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;

// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor
__device__ __forceinline__ uint64_t wgmma_descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes) {
    const uint64_t address = (shared_address(tile) & 0x3ffffu) >> 4;
    return kSwizzle128 | uint64_t{stride_bytes >> 4} << 32 | uint64_t{leading_bytes >> 4} << 16 | address;
}

// kK: rows of the tile in a row, 128 bytes each; the tile is 64 elements deep.
__device__ __forceinline__ uint64_t wgmma_descriptor_k(const void* tile) {
    return wgmma_descriptor(tile, 16, kAtomBytes);  // the first stride means nothing here
}

// kMN: blocks of 64 columns, each block its k rows in a row; `block_bytes` from one block to the next (64 k rows:
// 8192).
__device__ __forceinline__ uint64_t wgmma_descriptor_mn(const void* tile, uint32_t block_bytes) {
    return wgmma_descriptor(tile, block_bytes, kAtomBytes);
}

// The descriptor of the same tile `step` products (16 elements along k each) further.
template <Major kMajor>
__device__ __forceinline__ uint64_t wgmma_advance(uint64_t descriptor, int step) {
    return descriptor + step * ((kMajor == Major::kK ? 32 : 2 * kAtomBytes) >> 4);
}

// ---- the instruction, for N = 64, 128, 192, 256 ----
// A in registers; NCUBBLE_WGMMA_SHARED (wgmma_operands.cuh) has both operands in shared memory. The operands after D
// are numbered from R = N / 2 on: A (four registers), B, whether to accumulate, majors.
#define NCUBBLE_WGMMA_REGISTERS(N, TYPE, R, R1, R2, R3, R4, R5, R6)                                                   \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %" #R5 ", 0;\n\t"                                              \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" NCUBBLE_D##R                    \
                 "}, {%" #R ", %" #R1 ", %" #R2 ", %" #R3 "}, %" #R4 ", p, 1, 1, %" #R6 ";\n\t}"                      \
                 : NCUBBLE_F##R(d)                                                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(accumulate)), "n"(int(kMajorB)))

#define NCUBBLE_WGMMA_SHARED_N(N, ...)                                   \
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {                    \
        NCUBBLE_WGMMA_SHARED(N, "bf16", __VA_ARGS__);                    \
    } else {                                                             \
        NCUBBLE_WGMMA_SHARED(N, "f16", __VA_ARGS__);                     \
    }
#define NCUBBLE_WGMMA_REGISTERS_N(N, ...)                                \
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {                    \
        NCUBBLE_WGMMA_REGISTERS(N, "bf16", __VA_ARGS__);                 \
    } else {                                                             \
        NCUBBLE_WGMMA_REGISTERS(N, "f16", __VA_ARGS__);                  \
    }

// d (+)= A x B with both operands in shared memory, given by descriptors. T: half or __nv_bfloat16; N = 2 x kRegisters.
// Without `accumulate` d is overwritten.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma
template <class T, Major kMajorA, Major kMajorB, int kRegisters>
__device__ __forceinline__ void wgmma(float (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, half>);
    static_assert(kRegisters == 32 || kRegisters == 64 || kRegisters == 96 || kRegisters == 128);
    if constexpr (kRegisters == 32) {
        NCUBBLE_WGMMA_SHARED_N(64, 32, 33, 34, 35, 36)
    } else if constexpr (kRegisters == 64) {
        NCUBBLE_WGMMA_SHARED_N(128, 64, 65, 66, 67, 68)
    } else if constexpr (kRegisters == 96) {
        NCUBBLE_WGMMA_SHARED_N(192, 96, 97, 98, 99, 100)
    } else {
        NCUBBLE_WGMMA_SHARED_N(256, 128, 129, 130, 131, 132)
    }
}

// The same with A in registers: 64 x 16, four registers per thread (see the top). They must not change before the wait.
template <class T, Major kMajorB, int kRegisters>
__device__ __forceinline__ void wgmma(float (&d)[kRegisters], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    static_assert(std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, half>);
    static_assert(kRegisters == 32 || kRegisters == 64 || kRegisters == 96 || kRegisters == 128);
    if constexpr (kRegisters == 32) {
        NCUBBLE_WGMMA_REGISTERS_N(64, 32, 33, 34, 35, 36, 37, 38)
    } else if constexpr (kRegisters == 64) {
        NCUBBLE_WGMMA_REGISTERS_N(128, 64, 65, 66, 67, 68, 69, 70)
    } else if constexpr (kRegisters == 96) {
        NCUBBLE_WGMMA_REGISTERS_N(192, 96, 97, 98, 99, 100, 101, 102)
    } else {
        NCUBBLE_WGMMA_REGISTERS_N(256, 128, 129, 130, 131, 132, 133, 134)
    }
}

#undef NCUBBLE_WGMMA_REGISTERS_N
#undef NCUBBLE_WGMMA_SHARED_N
#undef NCUBBLE_WGMMA_REGISTERS

}  // namespace ncubble
