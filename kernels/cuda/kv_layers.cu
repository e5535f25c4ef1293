// kv_layers: one layer of attention for the newest token, over a cache that holds a row more with every token.  Rung 13.
//
// Shapes:       x (batch, 1024) of the newest token, cache (tokens, batch, 1024), y as x; float. 16 heads of 64:
//               y = softmax(x cache^T / 8) cache per head, keys and values being the rows themselves.
// Tile:         a sequence at a time per CTA, which takes every gridDim.x-th; a warp per head, two elements per lane,
//               eight tokens loaded ahead.
// Idea:         the pipeline is the host's (kernels/host_streams/kv_layers.py): layers lie on streams, a token is in one
//               layer while the token before it is in the next, and each layer's cache grows in its stream's order.
// Roofline:     L2 or DRAM: the cache once per token.
// Bubble:       between kernels: the host allocates, or a stream waits for the layer before.
// Launch:       grid min(batch, CTAS), block 512, for every token and layer; 64 CTAs leave SMs to another layer.
// Precondition: 8-byte aligned pointers.
// Parameters:   none: CTAS (32, 64, 128) is the host's
constexpr int kHead = 64, kWidth = 1024, kThreads = kWidth / 2;
constexpr int kAhead = 8;  // tokens that are loaded before the first is used

namespace {

// The row of one sequence and head; `keys` are its rows in the cache, `row` pairs apart.
__device__ __forceinline__ float2 attend(float2 query, const float2* keys, size_t row, int tokens) {
    const float scale = 0.125f * 1.44269504f;  // 1 / sqrt(kHead), and exp2 instead of exp
    float most = -INFINITY, sum = 0.0f;
    float2 mean = make_float2(0.0f, 0.0f);
    for (int first = 0; first < tokens; first += kAhead) {
        float2 key[kAhead];
        float score[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i)
            key[i] = first + i < tokens ? __ldg(keys + (first + i) * row) : make_float2(0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < kAhead; ++i) score[i] = query.x * key[i].x + query.y * key[i].y;
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
            for (int i = 0; i < kAhead; ++i) score[i] += __shfl_xor_sync(~0u, score[i], offset);
        float larger = most;
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            score[i] = first + i < tokens ? score[i] * scale : -INFINITY;
            larger = fmaxf(larger, score[i]);
        }
        const float shrink = exp2f(most - larger);
        most = larger;
        sum *= shrink;
        mean.x *= shrink;
        mean.y *= shrink;
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const float weight = exp2f(score[i] - most);
            sum += weight;
            mean.x += weight * key[i].x;
            mean.y += weight * key[i].y;
        }
    }
    return make_float2(mean.x / sum, mean.y / sum);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
kv_layers(const float2* __restrict__ x, const float2* __restrict__ cache, float2* __restrict__ y, int tokens, int batch) {
    const size_t row = static_cast<size_t>(batch) * kThreads;  // of a token: a pair per thread and sequence
    for (int sequence = blockIdx.x; sequence < batch; sequence += gridDim.x) {
        const int own = sequence * kThreads + static_cast<int>(threadIdx.x);
        y[own] = attend(x[own], cache + own, row, tokens);
    }
}
