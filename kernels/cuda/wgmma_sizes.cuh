// wgmma (wgmma.cuh) with a B operand of 8, 16, 24, … 256 columns: bf16, both operands in shared memory.
#pragma once

#include <cstdint>

#include "wgmma.cuh"

// Operand lists (wgmma_operands.cuh) of the sizes between.
#define NCUBBLE_D4 "%0, %1, %2, %3"
#define NCUBBLE_D8 NCUBBLE_D4 ", %4, %5, %6, %7"
#define NCUBBLE_D12 NCUBBLE_D8 ", %8, %9, %10, %11"
#define NCUBBLE_D16 NCUBBLE_D12 ", %12, %13, %14, %15"
#define NCUBBLE_D20 NCUBBLE_D16 ", %16, %17, %18, %19"
#define NCUBBLE_D24 NCUBBLE_D20 ", %20, %21, %22, %23"
#define NCUBBLE_D28 NCUBBLE_D24 ", %24, %25, %26, %27"
#define NCUBBLE_D36 NCUBBLE_D32 ", %32, %33, %34, %35"
#define NCUBBLE_D40 NCUBBLE_D36 ", %36, %37, %38, %39"
#define NCUBBLE_D44 NCUBBLE_D40 ", %40, %41, %42, %43"
#define NCUBBLE_D48 NCUBBLE_D44 ", %44, %45, %46, %47"
#define NCUBBLE_D52 NCUBBLE_D48 ", %48, %49, %50, %51"
#define NCUBBLE_D56 NCUBBLE_D52 ", %52, %53, %54, %55"
#define NCUBBLE_D60 NCUBBLE_D56 ", %56, %57, %58, %59"
#define NCUBBLE_D68 NCUBBLE_D64 ", %64, %65, %66, %67"
#define NCUBBLE_D72 NCUBBLE_D68 ", %68, %69, %70, %71"
#define NCUBBLE_D76 NCUBBLE_D72 ", %72, %73, %74, %75"
#define NCUBBLE_D80 NCUBBLE_D76 ", %76, %77, %78, %79"
#define NCUBBLE_D84 NCUBBLE_D80 ", %80, %81, %82, %83"
#define NCUBBLE_D88 NCUBBLE_D84 ", %84, %85, %86, %87"
#define NCUBBLE_D92 NCUBBLE_D88 ", %88, %89, %90, %91"
#define NCUBBLE_D100 NCUBBLE_D96 ", %96, %97, %98, %99"
#define NCUBBLE_D104 NCUBBLE_D100 ", %100, %101, %102, %103"
#define NCUBBLE_D108 NCUBBLE_D104 ", %104, %105, %106, %107"
#define NCUBBLE_D112 NCUBBLE_D108 ", %108, %109, %110, %111"
#define NCUBBLE_D116 NCUBBLE_D112 ", %112, %113, %114, %115"
#define NCUBBLE_D120 NCUBBLE_D116 ", %116, %117, %118, %119"
#define NCUBBLE_D124 NCUBBLE_D120 ", %120, %121, %122, %123"
#define NCUBBLE_F4(d) NCUBBLE_QUAD(d, 0)
#define NCUBBLE_F8(d) NCUBBLE_F4(d), NCUBBLE_QUAD(d, 4)
#define NCUBBLE_F12(d) NCUBBLE_F8(d), NCUBBLE_QUAD(d, 8)
#define NCUBBLE_F16(d) NCUBBLE_F12(d), NCUBBLE_QUAD(d, 12)
#define NCUBBLE_F20(d) NCUBBLE_F16(d), NCUBBLE_QUAD(d, 16)
#define NCUBBLE_F24(d) NCUBBLE_F20(d), NCUBBLE_QUAD(d, 20)
#define NCUBBLE_F28(d) NCUBBLE_F24(d), NCUBBLE_QUAD(d, 24)
#define NCUBBLE_F36(d) NCUBBLE_F32(d), NCUBBLE_QUAD(d, 32)
#define NCUBBLE_F40(d) NCUBBLE_F36(d), NCUBBLE_QUAD(d, 36)
#define NCUBBLE_F44(d) NCUBBLE_F40(d), NCUBBLE_QUAD(d, 40)
#define NCUBBLE_F48(d) NCUBBLE_F44(d), NCUBBLE_QUAD(d, 44)
#define NCUBBLE_F52(d) NCUBBLE_F48(d), NCUBBLE_QUAD(d, 48)
#define NCUBBLE_F56(d) NCUBBLE_F52(d), NCUBBLE_QUAD(d, 52)
#define NCUBBLE_F60(d) NCUBBLE_F56(d), NCUBBLE_QUAD(d, 56)
#define NCUBBLE_F68(d) NCUBBLE_F64(d), NCUBBLE_QUAD(d, 64)
#define NCUBBLE_F72(d) NCUBBLE_F68(d), NCUBBLE_QUAD(d, 68)
#define NCUBBLE_F76(d) NCUBBLE_F72(d), NCUBBLE_QUAD(d, 72)
#define NCUBBLE_F80(d) NCUBBLE_F76(d), NCUBBLE_QUAD(d, 76)
#define NCUBBLE_F84(d) NCUBBLE_F80(d), NCUBBLE_QUAD(d, 80)
#define NCUBBLE_F88(d) NCUBBLE_F84(d), NCUBBLE_QUAD(d, 84)
#define NCUBBLE_F92(d) NCUBBLE_F88(d), NCUBBLE_QUAD(d, 88)
#define NCUBBLE_F100(d) NCUBBLE_F96(d), NCUBBLE_QUAD(d, 96)
#define NCUBBLE_F104(d) NCUBBLE_F100(d), NCUBBLE_QUAD(d, 100)
#define NCUBBLE_F108(d) NCUBBLE_F104(d), NCUBBLE_QUAD(d, 104)
#define NCUBBLE_F112(d) NCUBBLE_F108(d), NCUBBLE_QUAD(d, 108)
#define NCUBBLE_F116(d) NCUBBLE_F112(d), NCUBBLE_QUAD(d, 112)
#define NCUBBLE_F120(d) NCUBBLE_F116(d), NCUBBLE_QUAD(d, 116)
#define NCUBBLE_F124(d) NCUBBLE_F120(d), NCUBBLE_QUAD(d, 120)

namespace ncubble {

#define NCUBBLE_WGMMA_OF(N, R, ...) \
    if constexpr (kRegisters == R) NCUBBLE_WGMMA_SHARED(N, "bf16", R, __VA_ARGS__)

// d (+)= A x B as wgmma() does it, N = 2 x kRegisters.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions-wgmma-mma
template <Major kMajorA, Major kMajorB, int kRegisters>
__device__ __forceinline__ void wgmma_of_size(float (&d)[kRegisters], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(kRegisters % 4 == 0 && kRegisters > 0 && kRegisters <= 128);
    NCUBBLE_WGMMA_OF(8, 4, 5, 6, 7, 8);
    NCUBBLE_WGMMA_OF(16, 8, 9, 10, 11, 12);
    NCUBBLE_WGMMA_OF(24, 12, 13, 14, 15, 16);
    NCUBBLE_WGMMA_OF(32, 16, 17, 18, 19, 20);
    NCUBBLE_WGMMA_OF(40, 20, 21, 22, 23, 24);
    NCUBBLE_WGMMA_OF(48, 24, 25, 26, 27, 28);
    NCUBBLE_WGMMA_OF(56, 28, 29, 30, 31, 32);
    NCUBBLE_WGMMA_OF(64, 32, 33, 34, 35, 36);
    NCUBBLE_WGMMA_OF(72, 36, 37, 38, 39, 40);
    NCUBBLE_WGMMA_OF(80, 40, 41, 42, 43, 44);
    NCUBBLE_WGMMA_OF(88, 44, 45, 46, 47, 48);
    NCUBBLE_WGMMA_OF(96, 48, 49, 50, 51, 52);
    NCUBBLE_WGMMA_OF(104, 52, 53, 54, 55, 56);
    NCUBBLE_WGMMA_OF(112, 56, 57, 58, 59, 60);
    NCUBBLE_WGMMA_OF(120, 60, 61, 62, 63, 64);
    NCUBBLE_WGMMA_OF(128, 64, 65, 66, 67, 68);
    NCUBBLE_WGMMA_OF(136, 68, 69, 70, 71, 72);
    NCUBBLE_WGMMA_OF(144, 72, 73, 74, 75, 76);
    NCUBBLE_WGMMA_OF(152, 76, 77, 78, 79, 80);
    NCUBBLE_WGMMA_OF(160, 80, 81, 82, 83, 84);
    NCUBBLE_WGMMA_OF(168, 84, 85, 86, 87, 88);
    NCUBBLE_WGMMA_OF(176, 88, 89, 90, 91, 92);
    NCUBBLE_WGMMA_OF(184, 92, 93, 94, 95, 96);
    NCUBBLE_WGMMA_OF(192, 96, 97, 98, 99, 100);
    NCUBBLE_WGMMA_OF(200, 100, 101, 102, 103, 104);
    NCUBBLE_WGMMA_OF(208, 104, 105, 106, 107, 108);
    NCUBBLE_WGMMA_OF(216, 108, 109, 110, 111, 112);
    NCUBBLE_WGMMA_OF(224, 112, 113, 114, 115, 116);
    NCUBBLE_WGMMA_OF(232, 116, 117, 118, 119, 120);
    NCUBBLE_WGMMA_OF(240, 120, 121, 122, 123, 124);
    NCUBBLE_WGMMA_OF(248, 124, 125, 126, 127, 128);
    NCUBBLE_WGMMA_OF(256, 128, 129, 130, 131, 132);
}

#undef NCUBBLE_WGMMA_OF

}  // namespace ncubble
