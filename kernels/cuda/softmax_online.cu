// softmax_online: row-wise softmax; maximum and sum are updated while blocks of the row arrive by cp.async.  Rung 7.
//
// Shapes:       x (rows, cols), y (rows, cols), row-major float.
// Tile:         one CTA of THREADS threads per row. PATH_ASYNC: the row comes in blocks of THREADS x ITEMS pieces of VECTOR
//               floats, STAGES of them in flight, and stays in shared memory (KEPT). PATH_REGISTERS: a thread keeps its
//               HELD pieces of 4 floats in registers.
// Idea:         (max, sum) pairs merge associatively: sum' = sum_a * exp(max_a - max') + sum_b * exp(max_b - max'). So a
//               thread takes each block into its pair as soon as the block is there, while later ones are in flight; one
//               reduction over the CTA ends the row, and the result is made of what is still in shared memory: DRAM is
//               read once. A thread copies exactly what it reads itself, so that blocks need no barrier.
//               PATH_REGISTERS, for comparison, reads once, too, but takes the maximum of all, then the sum.
// Roofline:     DRAM: 8 bytes per element.
// Bubble:       no tensor work; memory-bound. Other CTAs load while one reduces.
// Launch:       grid rows, block THREADS; PATH_ASYNC: dynamic shared memory of the row, or of STAGES blocks (KEPT=0).
// Precondition: 16-byte aligned pointers, cols a multiple of VECTOR. PATH_ASYNC takes any rows and cols: rows that start at
//               8 or 4 bytes are copied in such pieces, and those that no shared memory holds (KEPT=0, more than 227 KB)
//               are read a second time for the result; a GPU with less refuses rows between its limit and that one.
//               PATH_REGISTERS: cols a multiple of 4, at most 8 pieces a thread (checked before launch).
// Parameters:   -DPATH=PATH_ASYNC|PATH_REGISTERS -DTHREADS=128|256|512|1024 -DITEMS=1|2|4 -DSTAGES=1..8
//               set by the spec from cols: -DVECTOR=1|2|4 -DKEPT=0|1, -DHELD=1..8
#include <cfloat>
#include <cmath>

#include "cp_async.cuh"
#include "exp2.cuh"

using namespace ncubble;

// A maximum and the sum of exp(value - maximum). The maximum starts at -FLT_MAX, not -infinity: the difference of two
// empty partials must not be NaN.
struct Partial {
    float max = -FLT_MAX, sum = 0.0f;
};

__device__ __forceinline__ float exp_fast(float x) { return exp2_fast(x * kLog2E); }

// Takes kCount more values into a partial; what does not exist is -infinity.
template <int kCount>
__device__ __forceinline__ void absorb(Partial& mine, const float (&values)[kCount]) {
    float max = mine.max;
#pragma unroll
    for (float value : values) max = fmaxf(max, value);
    float sum = mine.sum * exp_fast(mine.max - max);
#pragma unroll
    for (float value : values) sum += exp_fast(value - max);
    mine = {max, sum};
}

// The merge of all threads' partials, in every thread: the maximum first, so that a sum is scaled once and not at every
// step.
template <int kLanes>
__device__ __forceinline__ Partial merge_lanes(Partial mine) {
    Partial all = mine;
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2)
        all.max = fmaxf(all.max, __shfl_xor_sync(~0u, all.max, offset));
    all.sum *= exp_fast(mine.max - all.max);
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) all.sum += __shfl_xor_sync(~0u, all.sum, offset);
    return all;
}

__device__ __forceinline__ Partial merge_block(Partial mine) {
    constexpr int kWarps = THREADS / 32;
    __shared__ Partial partials[kWarps];
    mine = merge_lanes<32>(mine);
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = mine;
    __syncthreads();
    return merge_lanes<kWarps>(partials[threadIdx.x % kWarps]);
}

__device__ __forceinline__ float normalized(float x, Partial all, float scale) { return exp_fast(x - all.max) * scale; }

// Registers for 2048 threads an SM, or for 1024 where a thread holds many values: the compiler's own choice spills.
constexpr int kResident = (PATH == PATH_ASYNC && ITEMS <= 2 ? 2048 : 1024) / THREADS;

#if PATH == PATH_ASYNC

struct alignas(4 * VECTOR) Vector {
    float at[VECTOR];
};

__device__ __forceinline__ void store(Vector* target, const Vector& value) {
    if constexpr (VECTOR == 4) {
        __stcs(reinterpret_cast<float4*>(target), make_float4(value.at[0], value.at[1], value.at[2], value.at[3]));
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) __stcs(&target->at[i], value.at[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, kResident)
softmax_online(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    constexpr int kBlock = THREADS * ITEMS;  // vectors
    extern __shared__ __align__(16) unsigned char memory[];
    Vector* row = reinterpret_cast<Vector*>(memory);
    const int vectors = cols / VECTOR;
    const size_t start = static_cast<size_t>(blockIdx.x) * vectors;
    const Vector* source = reinterpret_cast<const Vector*>(x) + start;
    Vector* target = reinterpret_cast<Vector*>(y) + start;
    // Where a vector of the row lies in shared memory: blocks stand in a row, or in a ring.
    auto slot = [](int at) { return KEPT ? at : at % (STAGES * kBlock); };

    // Starts the copy of this thread's part of a block, as a group of its own, empty past the end of the row, so that
    // counting groups counts blocks.
    auto issue = [&](int block) {
        if (block < vectors)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                const int at = block + i * THREADS + threadIdx.x;
                if (at < vectors) cp_async<4 * VECTOR>(&row[slot(at)], &source[at]);
            }
        cp_async_commit();
    };

    for (int block = 0; block < STAGES - 1; ++block) issue(block * kBlock);
    Partial mine;
#pragma unroll 1
    for (int block = 0; block < vectors; block += kBlock) {
        issue(block + (STAGES - 1) * kBlock);  // in a ring: to where this thread has read the block before
        cp_async_wait<STAGES - 1>();           // this thread's part of the block at hand is in: nobody else reads it
        float values[ITEMS * VECTOR];
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const int at = block + i * THREADS + threadIdx.x;
            const Vector vector = row[slot(at)];
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) values[i * VECTOR + j] = at < vectors ? vector.at[j] : -INFINITY;
        }
        absorb(mine, values);
    }
    const Partial all = merge_block(mine);
    const float scale = __fdividef(1.0f, all.sum);
#pragma unroll 4
    for (int at = threadIdx.x; at < vectors; at += THREADS) {
        Vector vector = KEPT ? row[at] : source[at];
#pragma unroll
        for (float& value : vector.at) value = normalized(value, all, scale);
        store(&target[at], vector);
    }
}

#else

extern "C" __global__ void __launch_bounds__(THREADS, kResident)
softmax_online(const float* __restrict__ rows_in, float* __restrict__ rows_out, int rows, int cols) {
    const size_t start = static_cast<size_t>(blockIdx.x) * cols;
    const float4* x = reinterpret_cast<const float4*>(rows_in + start);
    float4* y = reinterpret_cast<float4*>(rows_out + start);
    const int quads = cols / 4;
    float4 values[HELD];
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = threadIdx.x + i * THREADS;
        values[i] = at < quads ? __ldcs(&x[at]) : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    }
    Partial mine;
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        mine.max = fmaxf(fmaxf(fmaxf(values[i].x, values[i].y), fmaxf(values[i].z, values[i].w)), mine.max);
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        mine.sum += exp_fast(values[i].x - mine.max) + exp_fast(values[i].y - mine.max) +
                    exp_fast(values[i].z - mine.max) + exp_fast(values[i].w - mine.max);
    const Partial all = merge_block(mine);
    const float scale = __fdividef(1.0f, all.sum);
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        const int at = threadIdx.x + i * THREADS;
        if (at < quads)
            __stcs(&y[at], make_float4(normalized(values[i].x, all, scale), normalized(values[i].y, all, scale),
                                       normalized(values[i].z, all, scale), normalized(values[i].w, all, scale)));
    }
}

#endif
