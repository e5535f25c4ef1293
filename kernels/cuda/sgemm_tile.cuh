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

// Calls copy(shared, global) for every 16-byte piece of a kRows x kColumns tile that this thread is to bring, from row-major
// global memory (row stride ld) to shared memory (row stride kStride), strides in floats. All threads take a run of whole
// rows, then the next: a thread keeps its column, and its addresses differ by constants.
template <int kThreads, int kRows, int kColumns, int kStride, typename Copy>
__device__ __forceinline__ void copy_tile(float* shared, const float* global, int ld, int thread, Copy copy) {
    constexpr int kPieces = kColumns / 4, kRowsAtOnce = kThreads / kPieces;
    static_assert(kThreads % kPieces == 0 && kRows % kRowsAtOnce == 0, "every thread copies equally many pieces");
    const int row = thread / kPieces, column = thread % kPieces * 4;
    shared += row * kStride + column;
    global += row * ld + column;
#pragma unroll
    for (int start = 0; start < kRows; start += kRowsAtOnce) copy(&shared[start * kStride], &global[start * ld]);
}

// Copies the A tile at a (row stride lda) and the B tile at b (row stride ldb) into one stage.
template <int kThreads, typename Copy>
__device__ __forceinline__ void copy_tiles(float* stage, const float* a, const float* b, int lda, int ldb, int thread,
                                           Copy copy) {
    copy_tile<kThreads, kTileM, kTileK, kStrideA>(stage, a, lda, thread, copy);
    copy_tile<kThreads, kTileK, kTileN, kTileN>(stage + kFloatsA, b, ldb, thread, copy);
}

}  // namespace ncubble
