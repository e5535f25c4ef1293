// sdpa_fp8_stage_c_wmma: out = softmax(Q K^T / sqrt(d)) V on tensor cores, keys and values in 8 bits.  Rung 9.
//
// Shapes:       q, out (b, h, s, d) half; k, v (b, h, s, d) uint8; k_scale, v_scale (b, h) float; not causal.
//               A stored byte u stands for dequant_sim_fp8(u, scale) = (u - 128) * scale.
// Tile:         32 queries per CTA, 32 keys per step, rows padded to kPadD = 64; 256 threads. Q K^T: four fragments of
//               16 x 16, each by two warps that take half of d each. P V: eight fragments, one per warp, in registers.
//               PV_SCALAR is document 002's layout: rows without padding, one warp per fragment of Q K^T, the result so
//               far as floats in shared memory, to which each thread adds P V for 8 columns of a row by FMAs.
// Idea:         USE_CP_ASYNC=1 brings the raw bytes of the next K and V tile by cp.async into a ring of two while this
//               tile is computed; USE_CP_ASYNC=0 loads a tile when it is due and waits for it. All else is the same,
//               bit for bit. Bytes become halves exactly (u - 128); the scales, factors of whole tiles, join the scale
//               of the softmax and the last division.
// Roofline:     tensor pipe through WMMA for long sequences. (1, 8, 512, 64) is one CTA an SM: nothing but latency.
// Bubble:       USE_CP_ASYNC=0: data_wait (30 % on an H100), once a tile, with no second CTA to hide it.
//               USE_CP_ASYNC=1: little of that (3 %); then issue (37 %) and smem_wait (19 %): eight warps alone.
// Launch:       grid (s / 32 rounded up, b x h), block 256, static shared memory 28 KB, with the ring 36 KB; PV_SCALAR:
//               24.1 KB (document 002's 22.5, and 2 for scores in float), with the ring 32.1: it takes 8 KB, not 16.
// Precondition: d a multiple of 16, at most 64 (checked before launch); any s; 16-byte aligned pointers.
// Parameters:   -DUSE_CP_ASYNC=0|1 -DPV=PV_WMMA|PV_SCALAR (without it PV_WMMA)
#include <cuda_fp16.h>
#include <mma.h>

#include "cp_async.cuh"
#include "debug.cuh"
#include "exp2.cuh"
#include "pack.cuh"

using namespace ncubble;
namespace wmma = nvcuda::wmma;

constexpr int kTileM = 32, kTileN = 32, kPadD = 64, kThreads = 256;
constexpr int kFragment = 16;            // WMMA m = n = k
constexpr int kPiece = 16;               // bytes per copy: 16 keys' or values' components
constexpr int kPiecesRow = kPadD / kPiece, kPiecesTile = kTileN * kPiecesRow;
#if defined(PV) && PV == PV_SCALAR
constexpr bool kScalar = true;
#else
constexpr bool kScalar = false;
#endif
constexpr int kStrideD = kPadD + (kScalar ? 0 : 8);    // halves; 144-byte rows have no bank conflicts at ldmatrix
constexpr int kStrideP = kTileN + 8;                   // halves
constexpr int kStrideS = kTileN + (kScalar ? 0 : 4);   // floats
constexpr int kStrideOut = kPadD + (kScalar ? 0 : 4);  // floats
constexpr int kStrideFactor = kScalar ? 1 : kFragment + 8;  // floats; rows that are read together meet other banks
constexpr int kSplit = kScalar ? 1 : 2;                // warps that share a fragment of Q K^T
constexpr int kParts = kThreads / kTileM;        // threads that share a row in the softmax: neighbours in one warp
constexpr int kColumns = kTileN / kParts;        // of the row, per thread
static_assert(kPiecesTile * 2 == kThreads, "each thread brings one piece, of K or of V");
static_assert(kPadD % kFragment == 0 && kColumns == 4 && kPadD / kParts == 8);

using FragmentA = wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, half, wmma::row_major>;
using FragmentK = wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, half, wmma::col_major>;
using FragmentV = wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, half, wmma::row_major>;
using FragmentC = wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, float>;

struct Shared {
    alignas(128) half q[kTileM][kStrideD];
    alignas(128) half kv[2][kTileN][kStrideD];  // K, then V, dequantized but for the scale
#if defined(PV) && PV == PV_SCALAR
    alignas(128) float scores[kSplit][kTileM][kStrideS];  // then P, in place
    alignas(128) float out[kTileM][kStrideOut];           // P V so far
#else
    alignas(128) half p[kTileM][kStrideP];
    union {  // both halves of d of Q K^T; after the last tile, the result
        alignas(128) float scores[kSplit][kTileM][kStrideS];
        alignas(128) float out[kTileM][kStrideOut];
    };
#endif
    alignas(128) float factor[kTileM][kStrideFactor];  // of each row of the result; for WMMA once per column
#if USE_CP_ASYNC
    alignas(128) uint8_t bytes[2][2][kTileN][kPadD];  // ring of two: K, V
#endif
};

// u - 128 of the lower or upper two bytes, exactly: 0x6400 + u is the half 1024 + u.
template <int kSelect>
__device__ __forceinline__ uint32_t dequantized(uint32_t bytes) {
    const uint32_t raised = __byte_perm(bytes, 0x64646464u, kSelect);
    const half2 value = __hsub2(reinterpret_cast<const half2&>(raised), __float2half2_rn(1152.0f));
    return reinterpret_cast<const uint32_t&>(value);
}

__device__ __forceinline__ void store_dequantized(half* shared, uint4 bytes) {
    constexpr int kLower = 0x4140, kUpper = 0x4342;
    uint4* target = reinterpret_cast<uint4*>(shared);
    target[0] = make_uint4(dequantized<kLower>(bytes.x), dequantized<kUpper>(bytes.x), dequantized<kLower>(bytes.y),
                           dequantized<kUpper>(bytes.y));
    target[1] = make_uint4(dequantized<kLower>(bytes.z), dequantized<kUpper>(bytes.z), dequantized<kLower>(bytes.w),
                           dequantized<kUpper>(bytes.w));
}

// Multiplies row r of the fragment by factors[r]. Which thread holds which element is WMMA's secret: a matrix whose rows
// repeat their factor puts it wherever the elements of the row are.
__device__ __forceinline__ void scale_rows(FragmentC& fragment, const float* factors) {
    FragmentC scale;
    wmma::load_matrix_sync(scale, factors, kStrideFactor, wmma::mem_row_major);
#pragma unroll
    for (int i = 0; i < fragment.num_elements; ++i) fragment.x[i] *= scale.x[i];
}

// This warp's fragment of Q K^T over its part of d, to shared.scores. With PV_SCALAR warps 4 to 7 have none.
struct ScoreTile {
    static constexpr int kSteps = kPadD / kSplit / kFragment;
    const int half_of_d, row, column;
    FragmentA query[kSteps];

    __device__ __forceinline__ ScoreTile(const Shared& shared, int warp)
        : half_of_d(warp / 4), row(warp % 4 / 2 * kFragment), column(warp % 2 * kFragment) {
        if (kScalar && half_of_d >= kSplit) return;
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
            wmma::load_matrix_sync(query[step], &shared.q[row][(half_of_d * kSteps + step) * kFragment], kStrideD);
    }

    __device__ __forceinline__ void multiply(Shared& shared) const {
        if (kScalar && half_of_d >= kSplit) return;
        FragmentC scores;
        wmma::fill_fragment(scores, 0.0f);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            FragmentK key;
            wmma::load_matrix_sync(key, &shared.kv[0][column][(half_of_d * kSteps + step) * kFragment], kStrideD);
            wmma::mma_sync(scores, query[step], key, scores);
        }
        wmma::store_matrix_sync(&shared.scores[half_of_d][row][column], scores, kStrideS, wmma::mem_row_major);
    }
};

// The threads that share a row share its copies of the factor, too.
__device__ __forceinline__ void store_factor(Shared& shared, int row, int part, float factor) {
    if constexpr (!kScalar)
        *reinterpret_cast<float2*>(&shared.factor[row][part * (kFragment / kParts)]) = make_float2(factor, factor);
    else if (part == 0)
        shared.factor[row][0] = factor;
}

// Running maximum and sum of one row of scores, held alike by the kParts threads that share the row.
struct OnlineRow {
    float maximum = -INFINITY, sum = 0.0f;

    // Takes in the first `keys` of the tile's scores, times `scale`. Leaves P and the factor of the result so far.
    __device__ __forceinline__ void take(Shared& shared, int row, int part, float scale, int keys) {
        const float4 left = *reinterpret_cast<const float4*>(&shared.scores[0][row][part * kColumns]);
        float x[kColumns] = {left.x, left.y, left.z, left.w};
        if constexpr (kSplit == 2) {
            const float4 right = *reinterpret_cast<const float4*>(&shared.scores[1][row][part * kColumns]);
            x[0] += right.x, x[1] += right.y, x[2] += right.z, x[3] += right.w;
        }
        const float previous = maximum;
#pragma unroll
        for (int i = 0; i < kColumns; ++i) {
            x[i] = part * kColumns + i < keys ? x[i] * scale : -INFINITY;
            maximum = fmaxf(maximum, x[i]);
        }
#pragma unroll
        for (int offset = kParts / 2; offset > 0; offset /= 2)
            maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, offset));
        float tile_sum = 0.0f;  // the maximum is finite here: every tile holds a key
#pragma unroll
        for (int i = 0; i < kColumns; ++i) tile_sum += x[i] = exp2_fast(x[i] - maximum);
#pragma unroll
        for (int offset = kParts / 2; offset > 0; offset /= 2) tile_sum += __shfl_xor_sync(~0u, tile_sum, offset);
        const float factor = exp2_fast(previous - maximum);
        sum = sum * factor + tile_sum;
#if defined(PV) && PV == PV_SCALAR
        *reinterpret_cast<float4*>(&shared.scores[0][row][part * kColumns]) = make_float4(x[0], x[1], x[2], x[3]);
#else
        half2* p = reinterpret_cast<half2*>(&shared.p[row][part * kColumns]);
        p[0] = __floats2half2_rn(x[0], x[1]);
        p[1] = __floats2half2_rn(x[2], x[3]);
#endif
        store_factor(shared, row, part, factor);
    }
};

#if defined(PV) && PV == PV_SCALAR

// This thread's 8 columns of a row of the result, P V so far, in shared memory.
struct OutTile {
    static constexpr int kWide = kPadD / kParts;
    const int row, column;

    __device__ __forceinline__ explicit OutTile(Shared& shared, int)
        : row(threadIdx.x / kParts), column(threadIdx.x % kParts * kWide) {
#pragma unroll
        for (int i = 0; i < kWide; ++i) shared.out[row][column + i] = 0.0f;
    }

    __device__ __forceinline__ void multiply_add(Shared& shared) {
        float sum[kWide];
#pragma unroll
        for (int i = 0; i < kWide; ++i) sum[i] = shared.out[row][column + i] * shared.factor[row][0];
#pragma unroll 4
        for (int key = 0; key < kTileN; ++key)
#pragma unroll
            for (int i = 0; i < kWide; ++i)
                sum[i] = fmaf(shared.scores[0][row][key], __half2float(shared.kv[1][key][column + i]), sum[i]);
#pragma unroll
        for (int i = 0; i < kWide; ++i) shared.out[row][column + i] = sum[i];
    }

    __device__ __forceinline__ void store(Shared& shared) {
#pragma unroll
        for (int i = 0; i < kWide; ++i) shared.out[row][column + i] *= shared.factor[row][0];
    }
};

#else

// This warp's fragment of the result, P V so far.
struct OutTile {
    const int row, column;
    FragmentC sum;

    __device__ __forceinline__ explicit OutTile(const Shared&, int warp)
        : row(warp / 4 * kFragment), column(warp % 4 * kFragment) {
        wmma::fill_fragment(sum, 0.0f);
    }

    __device__ __forceinline__ void multiply_add(const Shared& shared) {
        scale_rows(sum, shared.factor[row]);
#pragma unroll
        for (int step = 0; step < kTileN / kFragment; ++step) {
            FragmentA p;
            FragmentV value;
            wmma::load_matrix_sync(p, &shared.p[row][step * kFragment], kStrideP);
            wmma::load_matrix_sync(value, &shared.kv[1][step * kFragment][column], kStrideD);
            wmma::mma_sync(sum, p, value, sum);
        }
    }

    __device__ __forceinline__ void store(Shared& shared) {
        scale_rows(sum, shared.factor[row]);
        wmma::store_matrix_sync(&shared.out[row][column], sum, kStrideOut, wmma::mem_row_major);
    }
};

#endif

__device__ __forceinline__ uint4 packed_halves(const float* values) {
    const float4 low = *reinterpret_cast<const float4*>(values), high = *reinterpret_cast<const float4*>(values + 4);
    return make_uint4(pack<half>(low.x, low.y), pack<half>(low.z, low.w), pack<half>(high.x, high.y),
                      pack<half>(high.z, high.w));
}

extern "C" __global__ void __launch_bounds__(kThreads, 4)  // four CTAs: half of the warps that an SM of Hopper can hold
sdpa_fp8_stage_c_wmma(const half* __restrict__ q, const uint8_t* __restrict__ k, const uint8_t* __restrict__ v,
                      const float* __restrict__ k_scale, const float* __restrict__ v_scale, half* __restrict__ out,
                      int s, int d) {
    __shared__ Shared shared;
    const unsigned thread = threadIdx.x, warp = thread / 32;
    const unsigned row = thread / kParts, part = thread % kParts;  // in the softmax, and of q and out in global memory
    const size_t head = static_cast<size_t>(blockIdx.y) * s * d;
    const float scale = k_scale[blockIdx.y] * rsqrtf(static_cast<float>(d)) * kLog2E;

    // The piece that this thread brings of every tile. What lies past s or past d repeats what lies before it: such
    // scores are masked, such columns of q are zero, such columns of the result are not stored.
    const unsigned matrix = thread / kPiecesTile, piece_row = thread % kPiecesTile / kPiecesRow;
    const unsigned piece_column = thread % kPiecesRow * kPiece;
    const uint8_t* source = (matrix ? v : k) + head + min(static_cast<int>(piece_column), d - kPiece);
    auto piece = [&](int tile) {
        return source + static_cast<size_t>(min(tile * kTileN + static_cast<int>(piece_row), s - 1)) * d;
    };

    const int tiles = (s - 1) / kTileN + 1;
#if USE_CP_ASYNC
    // Exactly one group is committed per call, empty past the last tile, so that counting groups counts tiles.
    auto issue = [&](int tile) {
        DEBUG_PRINT_ONCE("tile %d of %d asked for, into slot %d\n", tile, tiles, tile % 2);
        if (tile < tiles) cp_async<kPiece>(&shared.bytes[tile % 2][matrix][piece_row][piece_column], piece(tile));
        cp_async_commit();
    };
    issue(0);
#endif

    const int query = blockIdx.x * kTileM + row, component = part * 8;
    uint4 queries = make_uint4(0, 0, 0, 0);
    if (query < s && component < d)
        queries = *reinterpret_cast<const uint4*>(&q[head + static_cast<size_t>(query) * d + component]);
    *reinterpret_cast<uint4*>(&shared.q[row][component]) = queries;
    __syncthreads();

    const ScoreTile scores(shared, warp);
    OnlineRow online;
    OutTile result(shared, warp);
    for (int tile = 0; tile < tiles; ++tile) {
#if USE_CP_ASYNC
        issue(tile + 1);     // into the slot of tile - 1, which was read three barriers ago
        cp_async_wait<1>();  // all but the newest of tile + 2 groups are in, so this thread's part of this tile is
        __syncthreads();     // everybody's part of this tile is in; P V of tile - 1 is done with kv, p and factor
        const uint4 bytes = *reinterpret_cast<const uint4*>(&shared.bytes[tile % 2][matrix][piece_row][piece_column]);
#else
        const uint4 bytes = *reinterpret_cast<const uint4*>(piece(tile));
        __syncthreads();  // P V of tile - 1 is done with kv, p and factor
#endif
        DEBUG_PRINT_ONCE("tile %d: %d keys, first byte of K %u\n", tile, min(s - tile * kTileN, kTileN), bytes.x & 255);
        store_dequantized(&shared.kv[matrix][piece_row][piece_column], bytes);
        __syncthreads();  // the tile is in kv
        scores.multiply(shared);
        __syncthreads();  // its scores are in shared memory
        online.take(shared, row, part, scale, s - tile * kTileN);
        DEBUG_CHECK(isfinite(online.maximum) && online.sum > 0.0f);  // every tile holds a key
        __syncthreads();  // P and the factors of the rows are in shared memory
        result.multiply_add(shared);
    }

    __syncthreads();  // P V of the last tile is done with the factors
    store_factor(shared, row, part, __fdividef(v_scale[blockIdx.y], online.sum));
    __syncthreads();  // the last factors are in shared memory, and the scores, which the result overwrites, are read
    result.store(shared);
    __syncthreads();
    if (query < s && component < d)
        *reinterpret_cast<uint4*>(&out[head + static_cast<size_t>(query) * d + component]) =
            packed_halves(&shared.out[row][component]);
}
