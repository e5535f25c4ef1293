// attention_fp8: out = softmax(Q K^T / sqrt(d)) V on e4m3: attention_fwd on wgmma of 8 bits.  Rung 8.
//
// Shapes:       q, k, v (batch, heads, tokens, d) row-major e4m3, d = HEAD_DIM = 64 or 128, any number of tokens;
//               scale_q, scale_k, scale_v (batch, heads) float32 > 0, by which the elements of a head are multiplied;
//               out like q, in bfloat16. With CAUSAL a token sees itself and those before it.
// Tile:         64 queries per consumer warpgroup, of which a CTA has CONSUMERS, x KEYS keys. Rings of
//               STAGES tiles of K, STAGES tiles of turned V, two tiles of V as it comes.
// Idea:         against attention_fwd both products take half the cycles, and the softmax becomes what lasts longest.
//               8-bit wgmma takes V along keys only: warps beside the producer turn each tile in shared memory, once
//               for all consumers, in an order of keys in which P needs no exchange (attention_fp8_values.cuh). P in
//               e4m3 is 2^8 times as large, to use its range. Maxima are compared as integers, three at a time
//               (attention_fp8_softmax.cuh). Tensor cores add e4m3 with about 14 bits: ACCUMULATE=promoted has them
//               sum over one tile of keys, and adds O up in float; fast leaves all of O to them.
// Error:        rounding P to e4m3 (2^-4 of a term at most) makes O wrong by 2.6 % of the root mean square of its row,
//               inputs as they are in e4m3. Row sums are of P before it is rounded. fast: tensor cores cut each term
//               13 bits below the largest, O so far included; where values have one sign that adds up, with the keys.
// Roofline:     tensor pipe (8192 FLOP a cycle and SM) and exponential unit (MUFU, 16 a cycle and SM) alike with
//               d = 128; with d = 64 the exponentials take twice as long. POLYNOMIAL of 16 go to the FMA pipe instead.
// Bubble:       issue at the softmax: exponentials, and what is issued around them. Products of other warpgroups run
//               beside it.
// Launch:       grid min(SMs, tiles), block 128 (1 + consumers), dynamic shared memory
//               (64 consumers + (2 STAGES + 2) x KEYS) x d + 1024 bytes.
// Precondition: 16-byte aligned pointers; maps of q, k, v as (batch x heads, tokens, d) with boxes of d columns (of q
//               64 rows per consumer) and a swizzle of d bytes; compute capability 9.0; a second launch at the same
//               time traps.
// Parameters:   -DACCUMULATE=ACCUMULATE_FAST|ACCUMULATE_PROMOTED -DCAUSAL=0|1 -DKEYS=64|128|192 (192: two
//               consumers, and with d = 128 fast) -DSTAGES=2..4 -DPOLYNOMIAL=0|2|4 -DHEAD_DIM=64|128
//               -DCONSUMERS=2|3 (3: d = 64; left out: 2)
#include "attention_fp8.cuh"

#ifndef CONSUMERS
#define CONSUMERS 2
#endif

using namespace ncubble;

using Attention = AttentionFp8<HEAD_DIM, KEYS, STAGES, CAUSAL, ACCUMULATE == ACCUMULATE_PROMOTED, POLYNOMIAL,
                               CONSUMERS>;

extern "C" __global__ void __launch_bounds__(Attention::kThreads, 1)
attention_fp8(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_k,
              const __grid_constant__ TensorMap map_v, const uint8_t*, const uint8_t*, const uint8_t*,
              const float* scale_q, const float* scale_k, const float* scale_v, __nv_bfloat16* out, int batch,
              int heads, int tokens) {
    Attention::run(map_q, map_k, map_v, {scale_q, scale_k, scale_v}, out, batch * heads, tokens);
}
