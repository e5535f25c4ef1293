// attention_scalar: out = softmax(Q K^T / sqrt(d)) V in scalar code: half in and out, float FMAs, no tensor cores.
// Rung 8, before its tensor cores: document 004's phase 1 (COPY=plain, STAGES=1), its phase 2 (STAGES=2, COPY=pipeline,
// or COPY=async: the instructions themselves) and its phase 2b (COPY=tma).
//
// Shapes:       q, k, v, out (batch, heads, tokens, d) row-major half, d = HEAD_DIM = 64 or 128; any number of tokens.
// Tile:         8 x ROWS queries x KEYS keys per CTA of 8 warps, ROWS queries per warp. A lane owns keys lane, lane + 32, ...
//               of S and HEAD_DIM / 32 columns of O. A tile of K and V takes 4 x KEYS x HEAD_DIM bytes (64 KB with 128
//               keys), a ring of STAGES of them.
// Idea:         only COPY and STAGES change between the phases, so that what asynchronous copies bring stands alone. TMA
//               pads the rows of K, too: its box is wider than the array, and what lies outside arrives as zeros. ROWS is
//               how often a value of K or V that was read from shared memory is used: 1 is the loop as one writes it first.
// Roofline:     FMA pipe; a value of K or V is read from DRAM once and from L2 tokens / (8 x ROWS) times.
// Bubble:       COPY=plain: data_wait as far as the other resident CTA does not hide it. Then issue: conversions to float
//               and reads of shared memory beside the FMAs; with ROWS=1 the reads alone.
// Launch:       grid batch x heads x tokens / (8 x ROWS), block 256, dynamic shared memory: queries as floats, 8 x ROWS x 128
//               bytes of P, the ring.
// Precondition: 16-byte aligned pointers; COPY=tma: compute capability 9.0.
// Parameters:   -DCOPY=COPY_PLAIN|COPY_ASYNC|COPY_PIPELINE|COPY_TMA -DSTAGES=1..4 -DKEYS=64|128 -DROWS=1|4|8|16
//               -DHEAD_DIM=64|128 (set by the spec)
#include <cooperative_groups.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cuda/pipeline>

#include "cp_async.cuh"
#include "exp2.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"

using namespace ncubble;

constexpr int kWarps = 8, kThreads = 32 * kWarps, kQueries = kWarps * ROWS;
constexpr int kKeys = KEYS / 32, kColumns = HEAD_DIM / 32;  // of a lane
constexpr int kPiece = 8;                                   // halves of 16 bytes
constexpr int kPitch = HEAD_DIM + kPiece;                   // of K: lanes that read a column of it meet different banks
constexpr int kHalvesK = KEYS * kPitch, kHalvesStage = kHalvesK + KEYS * HEAD_DIM;
constexpr float kScale = kLog2E / (HEAD_DIM == 128 ? 11.313708498984761f : 8.0f);
constexpr float kMasked = -0x1p100f;  // finite: the difference of two masked scores is 0, not NaN

__device__ __forceinline__ void unpack(uint32_t pair, float* two) {
    const float2 wide = __half22float2(*reinterpret_cast<const half2*>(&pair));
    two[0] = wide.x, two[1] = wide.y;
}

// Brings KEYS rows of HEAD_DIM halves to rows of kRow halves in shared memory, 16 bytes by every copy(target, source).
// Keys from `rows` on do not exist: the last one stands in, its score is masked.
template <int kRow, typename Copy>
__device__ __forceinline__ void copy_rows(half* shared, const half* __restrict__ global, int rows, Copy copy) {
    constexpr int kPieces = HEAD_DIM / kPiece, kRowsAtOnce = kThreads / kPieces;
    const int row = threadIdx.x / kPieces, column = threadIdx.x % kPieces * kPiece;
#pragma unroll
    for (int start = 0; start < KEYS; start += kRowsAtOnce) {
        copy(&shared[(row + start) * kRow + column],
             &global[static_cast<size_t>(min(row + start, rows - 1)) * HEAD_DIM + column]);
    }
}

struct Warp {
    float scores[ROWS][kKeys], output[ROWS][kColumns], max[ROWS], sum[ROWS];  // sum: of this lane's keys

    // S = Q K^T for the warp's queries, which all lanes read, and this lane's keys.
    __device__ __forceinline__ void multiply_keys(const float* queries, const half* keys) {
#pragma unroll
        for (auto& row : scores)
#pragma unroll
            for (float& score : row) score = 0.0f;
        const half* mine = keys + threadIdx.x % 32 * kPitch;
#pragma unroll 2
        for (int d = 0; d < HEAD_DIM; d += kPiece) {
            float key[kKeys][kPiece];
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                const uint4 piece = *reinterpret_cast<const uint4*>(&mine[32 * j * kPitch + d]);
                unpack(piece.x, &key[j][0]), unpack(piece.y, &key[j][2]);
                unpack(piece.z, &key[j][4]), unpack(piece.w, &key[j][6]);
            }
#pragma unroll
            for (int row = 0; row < ROWS; ++row)
#pragma unroll
                for (int i = 0; i < kPiece; i += 4) {
                    const float4 query = *reinterpret_cast<const float4*>(&queries[row * HEAD_DIM + d + i]);
#pragma unroll
                    for (int j = 0; j < kKeys; ++j) {
                        float& score = scores[row][j];
                        score = fmaf(query.x, key[j][i], score), score = fmaf(query.y, key[j][i + 1], score);
                        score = fmaf(query.z, key[j][i + 2], score), score = fmaf(query.w, key[j][i + 3], score);
                    }
                }
        }
    }

    // Scores to P = exp2(score - max); output and sum follow the maximum. Keys from `keys` on do not exist.
    __device__ __forceinline__ void soften(int keys) {
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            float top = max[row];
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                if (static_cast<int>(threadIdx.x) % 32 + 32 * j >= keys) scores[row][j] = kMasked;
                top = fmaxf(top, scores[row][j]);
            }
#pragma unroll
            for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
            const float correction = exp2_fast(max[row] - top);
            max[row] = top;
            sum[row] *= correction;
#pragma unroll
            for (float& value : output[row]) value *= correction;
#pragma unroll
            for (float& score : scores[row]) {
                score = exp2_fast(score - top);
                sum[row] += score;
            }
        }
    }

    // O += P V. P goes through the warp's own ROWS x 32 floats of shared memory, 32 keys at a time.
    __device__ __forceinline__ void multiply_values(float* weights, const half* values) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
            __syncwarp();
#pragma unroll
            for (int row = 0; row < ROWS; ++row) weights[row * 32 + lane] = scores[row][j];
            __syncwarp();
#pragma unroll 2
            for (int key = 0; key < 32; key += 4) {
                float value[4][kColumns];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const half* source = &values[(32 * j + key + i) * HEAD_DIM + lane * kColumns];
                    if constexpr (kColumns == 4) {
                        const uint2 piece = *reinterpret_cast<const uint2*>(source);
                        unpack(piece.x, &value[i][0]), unpack(piece.y, &value[i][2]);
                    } else {
                        unpack(*reinterpret_cast<const uint32_t*>(source), value[i]);
                    }
                }
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const float4 weight = *reinterpret_cast<const float4*>(&weights[row * 32 + key]);
#pragma unroll
                    for (int column = 0; column < kColumns; ++column) {
                        float& sum = output[row][column];
                        sum = fmaf(weight.x, value[0][column], sum), sum = fmaf(weight.y, value[1][column], sum);
                        sum = fmaf(weight.z, value[2][column], sum), sum = fmaf(weight.w, value[3][column], sum);
                    }
                }
            }
        }
    }
};

// At most 128 registers, so that two CTAs fit an SM, where that does not spill.
extern "C" __global__ void __launch_bounds__(kThreads, ROWS * KEYS <= 512 ? 2 : 1)
attention_scalar(
#if COPY == COPY_TMA
    const __grid_constant__ TensorMap map_k, const __grid_constant__ TensorMap map_v,
#endif
    const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v, half* __restrict__ out,
    int batch, int heads, int tokens) {
    extern __shared__ __align__(128) float queries[];
    float* weights = queries + kQueries * HEAD_DIM;
    half* ring = reinterpret_cast<half*>(weights + kQueries * 32);

    const int tiles_per_head = (tokens + kQueries - 1) / kQueries, tiles = (tokens + KEYS - 1) / KEYS;
    const int of_head = blockIdx.x / tiles_per_head;
    const size_t head = static_cast<size_t>(of_head) * tokens * HEAD_DIM;
    const int first_query = blockIdx.x % tiles_per_head * kQueries, lane = threadIdx.x % 32;

    // issue() starts to bring a tile; arrived() returns when all of this thread's part of it is there, or everybody's.
    [[maybe_unused]] auto copy_tile = [&](int tile, auto copy) {
        half* stage = ring + tile % STAGES * kHalvesStage;
        const size_t first = head + static_cast<size_t>(tile) * KEYS * HEAD_DIM;
        copy_rows<kPitch>(stage, k + first, tokens - tile * KEYS, copy);
        copy_rows<HEAD_DIM>(stage + kHalvesK, v + first, tokens - tile * KEYS, copy);
    };
#if COPY == COPY_PLAIN
    auto issue = [&](int tile) {
        if (tile < tiles)
            copy_tile(tile, [](half* target, const half* source) {
                *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
            });
    };
    auto arrived = [](int) {};
#elif COPY == COPY_ASYNC
    // One group is committed per call, empty past the last tile, so that counting groups counts tiles.
    auto issue = [&](int tile) {
        if (tile < tiles)
            copy_tile(tile, [](half* target, const half* source) { cp_async<16>(target, source); });
        cp_async_commit();
    };
    // STAGES - 1 + tile groups are committed then, with one stage one more.
    auto arrived = [](int) { cp_async_wait<(STAGES > 1 ? STAGES - 2 : 0)>(); };
#elif COPY == COPY_PIPELINE
#pragma nv_diag_suppress static_var_with_dynamic_init  // make_pipeline initializes it
    __shared__ alignas(128) cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto pipeline = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
    auto issue = [&](int tile) {
        if (tile >= tiles) return;
        pipeline.producer_acquire();
        copy_tile(tile, [&](half* target, const half* source) {
            cuda::memcpy_async(target, source, cuda::aligned_size_t<16>(16), pipeline);
        });
        pipeline.producer_commit();
    };
    auto arrived = [&](int) { pipeline.consumer_wait(); };
#else
    __shared__ alignas(128) uint64_t full[16];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&full[stage], 1);
        mbarrier_init_fence();
    }
    __syncthreads();  // nobody waits for a barrier that is not initialized
    auto issue = [&](int tile) {
        if (threadIdx.x != 0 || tile >= tiles) return;
        half* stage = ring + tile % STAGES * kHalvesStage;
        mbarrier_arrive_expect(&full[tile % STAGES], kHalvesStage * sizeof(half));
        tma_load(stage, map_k, &full[tile % STAGES], 0, tile * KEYS, of_head);
        tma_load(stage + kHalvesK, map_v, &full[tile % STAGES], 0, tile * KEYS, of_head);
    };
    auto arrived = [&](int tile) { mbarrier_wait(&full[tile % STAGES], tile / STAGES & 1); };
#endif
    for (int tile = 0; tile < STAGES - 1; ++tile) issue(tile);

    for (int at = threadIdx.x; at < kQueries * HEAD_DIM / 2; at += kThreads) {
        const int row = min(first_query + at * 2 / HEAD_DIM, tokens - 1);
        const half2 pair = *reinterpret_cast<const half2*>(&q[head + static_cast<size_t>(row) * HEAD_DIM + at * 2 % HEAD_DIM]);
        const float2 wide = __half22float2(pair);
        *reinterpret_cast<float2*>(&queries[at * 2]) = make_float2(wide.x * kScale, wide.y * kScale);
    }

    const int row = threadIdx.x / 32 * ROWS;  // of the warp, within the tile
    Warp warp;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        warp.max[i] = kMasked, warp.sum[i] = 0.0f;
#pragma unroll
        for (float& value : warp.output[i]) value = 0.0f;
    }
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
        if (STAGES == 1) {
            __syncthreads();  // everybody has finished reading the tile before
            issue(tile);
        }
        arrived(tile);
        __syncthreads();  // everybody's part is in, and everybody has finished reading the tile before
        if (STAGES > 1) issue(tile + STAGES - 1);
        const half* stage = ring + tile % STAGES * kHalvesStage;
        warp.multiply_keys(queries + row * HEAD_DIM, stage);
        warp.soften(tokens - tile * KEYS);
        warp.multiply_values(weights + row * 32, stage + kHalvesK);
#if COPY == COPY_PIPELINE
        pipeline.consumer_release();
#endif
    }

#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        float sum = warp.sum[i];
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
        const float inverse = 1.0f / sum;
        const int query = first_query + row + i;
        if (query >= tokens) break;
        half2* target = reinterpret_cast<half2*>(&out[head + static_cast<size_t>(query) * HEAD_DIM + lane * kColumns]);
#pragma unroll
        for (int column = 0; column < kColumns; column += 2)
            target[column / 2] = __floats2half2_rn(warp.output[i][column] * inverse, warp.output[i][column + 1] * inverse);
    }
}
