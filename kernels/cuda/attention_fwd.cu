// attention_fwd: out = softmax(Q K^T / sqrt(d)) V, fused (FlashAttention forward), bfloat16 in and out.  Rung 8.
//
// Shapes:       q, out (batch, heads, tokens, d), k, v (batch, heads / GROUP, tokens, d), row-major bfloat16,
//               d = HEAD_DIM = 64 or 128; any number of tokens. GROUP heads of q in a row share one of k and v. With
//               CAUSAL a token sees itself and those before it.
// Tile:         PATH_TMA: 128 (d = 128) or 192 (d = 64) queries x KEYS = 128 keys per CTA, 64 queries per consumer
//               warpgroup. PATH_CP_ASYNC: 128 queries x 64 keys, 32 queries per warp. K and V share a ring of STAGES
//               tiles.
// Idea:         against rungs 4 to 6 a softmax stands between two products. S and P never leave the registers: the
//               accumulator of the first product is the A operand of the second, and the online softmax of rung 7
//               corrects O as it goes. What is new is to give the tensor cores work meanwhile: see attention_tma.cuh,
//               and attention_cp_async.cuh for the path that leaves it to a second CTA.
// Roofline:     tensor pipe; d = 64 is at the roof of the exponential unit (MUFU) at the same time: 16 a cycle and SM,
//               one for every 4 d FLOP. Memory traffic is negligible from about a thousand tokens on.
// Bubble:       PATH_TMA: issue, where the softmax outlasts the other warpgroups' products: 16 % with d = 128, 33 %
//               with d = 64 (4096 tokens, H200), at the exponentials. PATH_CP_ASYNC: the slow path of the tensor cores
//               (mma.sync), and softmax that two CTAs overlap by luck: issue, 30 %.
// Launch:       PATH_TMA: grid min(SMs, tiles), block 128 x (1 + consumers), dynamic shared memory (queries + STAGES x
//               KEYS) x 2 d + 1024 bytes. PATH_CP_ASYNC: grid tiles, block 128, (128 + STAGES x 64) x 2 d bytes.
// Precondition: 16-byte aligned pointers; PATH_TMA: maps of q, k, v as (batch x their heads, tokens, d) with boxes of 64
//               columns and the 128-byte swizzle, compute capability 9.0; a second launch at the same time traps.
// Parameters:   -DPATH=PATH_CP_ASYNC|PATH_TMA -DCAUSAL=0|1 -DSTAGES=2..6 -DHEAD_DIM=64|128 -DKEYS -DSLACK (see
//               attention_softmax.cuh; both set by the spec) -DGROUP (left out: 1)
#if PATH == PATH_TMA
#include "attention_tma.cuh"
#else
#include "attention_cp_async.cuh"
#endif

#ifndef GROUP
#define GROUP 1
#endif

using namespace ncubble;

#if PATH == PATH_TMA

using Attention = AttentionTma<HEAD_DIM, KEYS, STAGES, CAUSAL, SLACK, GROUP>;

extern "C" __global__ void __launch_bounds__(Attention::kThreads, 1)
attention_fwd(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_k,
              const __grid_constant__ TensorMap map_v, const __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*,
              __nv_bfloat16* out, int batch, int heads, int tokens) {
    Attention::run(map_q, map_k, map_v, out, batch * heads, tokens);
}

#else

using Attention = AttentionCpAsync<HEAD_DIM, KEYS, STAGES, CAUSAL, SLACK, GROUP>;

// 255 registers: two CTAs of four warps fill an SM's register file.
extern "C" __global__ void __launch_bounds__(Attention::kThreads, 2)
attention_fwd(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
              const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ out, int batch, int heads, int tokens) {
    Attention::run(q, k, v, out, batch * heads, tokens);
}

#endif
