// The fp32 tile that rungs 1 and 2 share: shared-memory layout, register-blocked product, store. What differs between the
// rungs is only how a tile gets into shared memory, so a difference in time is a difference of copying.
//
// CTA tile 128 x 128 x 16. A thread owns rows tm + i * kThreadRows and the columns 4 * tn + {0..3} and 64 + 4 * tn + {0..3}.
#pragma once

namespace ncubble {

constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kTileK = 16;
constexpr int kStrideA = kTileK + 4;  // floats; 80-byte rows put the four A rows that a warp reads into different banks
constexpr int kFloatsA = kTileM * kStrideA;
constexpr int kFloatsB = kTileK * kTileN;
constexpr int kFloatsStage = kFloatsA + kFloatsB;  // 18432 bytes

// Where a thread works within the tile. Lanes form 4 (m) x 8 (n), warps kWarpsM (m) x 2 (n).
template <int kThreads>
struct ThreadTile {
    static constexpr int kThreadRows = kThreads / 16;  // threads along m
    static constexpr int kRows = kTileM / kThreadRows;  // rows of C per thread: 8 with 256 threads, 16 with 128
    int tm, tn;
    float acc[kRows][8];

    __device__ __forceinline__ explicit ThreadTile(int thread) {
        const int lane = thread % 32, warp = thread / 32;
        tm = warp / 2 * 4 + lane / 8;
        tn = warp % 2 * 8 + lane % 8;
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < 8; ++j) acc[i][j] = 0.0f;
    }

    // acc += A tile x B tile. A is read as float2 along k, so that its tile need not be transposed (cp.async cannot); float4
    // would need fewer loads, but with 8 x 8 results it does not fit 128 registers.
    __device__ __forceinline__ void multiply(const float* a, const float* b) {
#pragma unroll 1
        for (int k = 0; k < kTileK; k += 2) {
            float fragment_a[kRows][2];
#pragma unroll
            for (int i = 0; i < kRows; ++i)
                *reinterpret_cast<float2*>(fragment_a[i]) =
                    *reinterpret_cast<const float2*>(&a[(tm + i * kThreadRows) * kStrideA + k]);
#pragma unroll
            for (int kk = 0; kk < 2; ++kk) {
                float fragment_b[8];
                *reinterpret_cast<float4*>(&fragment_b[0]) =
                    *reinterpret_cast<const float4*>(&b[(k + kk) * kTileN + tn * 4]);
                *reinterpret_cast<float4*>(&fragment_b[4]) =
                    *reinterpret_cast<const float4*>(&b[(k + kk) * kTileN + 64 + tn * 4]);
#pragma unroll
                for (int i = 0; i < kRows; ++i)
#pragma unroll
                    for (int j = 0; j < 8; ++j) acc[i][j] += fragment_a[i][kk] * fragment_b[j];
            }
        }
    }

    // Writes the tile; c points at its first element, ldc is the row stride in floats.
    __device__ __forceinline__ void store(float* c, int ldc) const {
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float* target = &c[static_cast<size_t>(tm + i * kThreadRows) * ldc + half * 64 + tn * 4];
                *reinterpret_cast<float4*>(target) = make_float4(acc[i][half * 4], acc[i][half * 4 + 1],
                                                                 acc[i][half * 4 + 2], acc[i][half * 4 + 3]);
            }
    }
};

// Calls copy(shared, global) for every 16-byte piece of the A tile and the B tile that this thread is to bring.
// a and b point at the tiles' first elements in global memory.
template <int kThreads, typename Copy>
__device__ __forceinline__ void for_each_piece(const float* a, const float* b, int lda, int ldb, float* stage, int thread,
                                               Copy copy) {
#pragma unroll
    for (int piece = thread; piece < kTileM * kTileK / 4; piece += kThreads) {
        const int row = piece / (kTileK / 4), column = piece % (kTileK / 4) * 4;
        copy(&stage[row * kStrideA + column], &a[row * lda + column]);
    }
#pragma unroll
    for (int piece = thread; piece < kTileK * kTileN / 4; piece += kThreads) {
        const int row = piece / (kTileN / 4), column = piece % (kTileN / 4) * 4;
        copy(&stage[kFloatsA + row * kTileN + column], &b[row * ldb + column]);
    }
}

}  // namespace ncubble
