// What the four copies share: how an array is cut into chunks, which chunks a CTA brings, and what happens to a chunk
// once it lies in shared memory. They differ only in how a chunk gets there, so a difference in time is a difference of
// copying.
//
// y = 2 x over n floats. A chunk is THREADS x ITEMS pieces of 16 bytes; CTA b takes the chunks b, b + grid, and so on.
#pragma once

#include <cstddef>

#include "linger.cuh"

namespace ncubble {

constexpr int kPieces = THREADS * ITEMS;  // 16-byte pieces of a chunk

// The part of the array that this CTA copies. `chunk` counts this CTA's own chunks from 0.
struct Share {
    const float4* x;
    float4* y;
    int all;     // pieces of the array that are cut into chunks
    int chunks;  // this CTA's chunks

    __device__ __forceinline__ Share(const float* source, float* target, int pieces)
        : x(reinterpret_cast<const float4*>(source)), y(reinterpret_cast<float4*>(target)), all(pieces) {
        const int total = all / kPieces + (all % kPieces != 0);
        chunks = (total - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
    }
    // First piece of a chunk; only for chunk < chunks: of later ones it may not fit an int.
    __device__ __forceinline__ int start(int chunk) const {
        return (static_cast<int>(blockIdx.x) + chunk * static_cast<int>(gridDim.x)) * kPieces;
    }
    // Pieces of a chunk: all but the array's last one are full.
    __device__ __forceinline__ int pieces(int chunk) const { return min(kPieces, all - start(chunk)); }
};

// 2 x, after WORK FMAs per element that leave x what it is: so the result is the same for any WORK.
template <int kWidth>
__device__ __forceinline__ void process(float (&values)[kWidth]) {
    linger<WORK>(values);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values[j] *= 2.0f;
}

__device__ __forceinline__ float4 process(float4 x) {
    float values[4] = {x.x, x.y, x.z, x.w};
    process(values);
    return make_float4(values[0], values[1], values[2], values[3]);
}

// Calls body(piece) for every piece of a chunk that falls to this thread; a full chunk needs no comparisons.
template <typename Body>
__device__ __forceinline__ void for_own_pieces(int pieces, Body body) {
    if (pieces == kPieces) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) body(static_cast<int>(threadIdx.x) + i * THREADS, i);
    } else {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i)
            if (const int piece = static_cast<int>(threadIdx.x) + i * THREADS; piece < pieces) body(piece, i);
    }
}

// Shared memory -> process -> global memory. Plain stores: marked as streaming (.cs), the copies reach less.
__device__ __forceinline__ void process_chunk(const float4* shared, const Share& share, int chunk) {
    float4* target = share.y + share.start(chunk);
    for_own_pieces(share.pieces(chunk), [&](int piece, int) { target[piece] = process(shared[piece]); });
}

// The at most three elements past the last whole piece go straight from global to global memory.
__device__ __forceinline__ void process_rest(const float* x, float* y, int n) {
    const int at = n / 4 * 4 + static_cast<int>(threadIdx.x);
    if (blockIdx.x == 0 && at < n) {
        float value[1] = {x[at]};
        process(value);
        y[at] = value[0];
    }
}

}  // namespace ncubble
