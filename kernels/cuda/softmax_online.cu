// softmax_online: row-wise softmax in one pass over memory with a running maximum and sum.  Rung 7.
//
// Shapes:       x (rows, cols), y (rows, cols), row-major float.
// Tile:         one CTA of THREADS threads per row; a thread keeps ITEMS x 4 values of its row in registers.
// Idea:         (max, sum) pairs merge associatively: sum' = sum_a * exp(max_a - max') + sum_b * exp(max_b - max'). So a row needs
//               one reduction instead of a pass for the maximum and one for the sum, and while it stays in registers it is read
//               once and written once. Rows longer than THREADS x ITEMS x 4 (or cols not a multiple of 4) take the streaming
//               path: the reduction still needs one read, the result a second one (mostly from L2).
// Roofline:     DRAM: 8 bytes per element.
// Bubble:       no tensor work; memory-bound. With few resident CTAs the reduction between load and store leaves DRAM idle.
// Launch:       grid rows, block THREADS.
// Precondition: 16-byte aligned pointers; any rows and cols.
// Parameters:   -DTHREADS=128|256|512|1024 -DITEMS=1..8 (16-byte loads per thread)
#include <cfloat>
#include <cmath>

struct Partial {  // max starts at -FLT_MAX, not -inf: the difference of two empty partials must not be NaN
    float max = -FLT_MAX, sum = 0.0f;
};

__device__ __forceinline__ Partial merge(Partial left, Partial right) {
    const float max = fmaxf(left.max, right.max);
    return {max, left.sum * __expf(left.max - max) + right.sum * __expf(right.max - max)};
}

// The merge of all threads' partials, in every thread.
__device__ __forceinline__ Partial merge_block(Partial mine) {
    constexpr int kWarps = THREADS / 32;
    __shared__ Partial partials[kWarps];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        mine = merge(mine, {__shfl_xor_sync(~0u, mine.max, offset), __shfl_xor_sync(~0u, mine.sum, offset)});
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = mine;
    __syncthreads();
    Partial all = partials[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) all = merge(all, partials[warp]);
    return all;
}

__device__ __forceinline__ float4 normalized(float4 x, float max, float scale) {
    return make_float4(__expf(x.x - max) * scale, __expf(x.y - max) * scale, __expf(x.z - max) * scale,
                       __expf(x.w - max) * scale);
}

// The whole row sits in registers: one read, one write. quads = cols / 4 <= THREADS * ITEMS.
__device__ __forceinline__ void softmax_in_registers(const float4* __restrict__ x, float4* __restrict__ y, int quads) {
    float4 values[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = threadIdx.x + i * THREADS;
        values[i] = at < quads ? __ldcs(&x[at]) : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    }
    Partial mine;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        mine.max = fmaxf(fmaxf(fmaxf(values[i].x, values[i].y), fmaxf(values[i].z, values[i].w)), mine.max);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        mine.sum += __expf(values[i].x - mine.max) + __expf(values[i].y - mine.max) + __expf(values[i].z - mine.max) +
                    __expf(values[i].w - mine.max);
    const Partial all = merge_block(mine);
    const float scale = 1.0f / all.sum;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = threadIdx.x + i * THREADS;
        if (at < quads) __stcs(&y[at], normalized(values[i], all.max, scale));
    }
}

// Any row: the reduction streams over it once, the result reads it again.
__device__ __forceinline__ void softmax_streaming(const float* __restrict__ x, float* __restrict__ y, int cols) {
    Partial mine;
    for (int at = threadIdx.x; at < cols; at += THREADS) mine = merge(mine, {x[at], 1.0f});
    const Partial all = merge_block(mine);
    const float scale = 1.0f / all.sum;
    for (int at = threadIdx.x; at < cols; at += THREADS) y[at] = __expf(x[at] - all.max) * scale;
}

// Registers for as many threads an SM as the values leave room for; the compiler's own choice spills with 8 items.
constexpr int kResidentThreads = ITEMS <= 4 ? 2048 : 1024;

extern "C" __global__ void __launch_bounds__(THREADS, kResidentThreads / THREADS)
softmax_online(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    const size_t start = static_cast<size_t>(blockIdx.x) * cols;
    if (cols % 4 == 0 && cols <= THREADS * ITEMS * 4)
        softmax_in_registers(reinterpret_cast<const float4*>(x + start), reinterpret_cast<float4*>(y + start), cols / 4);
    else
        softmax_streaming(x + start, y + start, cols);
}
