// planted_dequant: C = (A - 128) scale x B with A in bytes, converted in the main loop: fast, or slowly (a planted
// disease).
//
// Shapes:       A (m, k) bytes, B (k, n), C (m, n), row-major; B and C half, float accumulators, rounded once. Of each
//               16 columns of A, bytes 4 q to 4 q + 3 hold columns 2 q, 2 q + 1, 2 q + 8, 2 q + 9 (q = 0..3): what one
//               lane of an mma takes lies in one word.
// Tile:         128 x 256 x 64 per CTA of 8 warps, 64 x 64 of C each; STAGES buffers of 128 x 64 bytes and 64 x 256
//               halves.
// Idea:         as planted_gemm. Bytes reach the registers by ldmatrix, as pairs that pass for halves.
//   DISEASE=none        two bytes become two halves by one PRMT, which puts them behind the exponent of 1024, and one
//                       HADD2, which takes 1024 + 128 away again. The scale waits for the results.
//   dequant_issue       each byte becomes a float, is shifted and scaled, and rounded to half: an I2F, an FADD and an
//                       FMUL per element, and an F2FP per pair. And it is done again for each of STRENGTH (2) groups
//                       of columns of C.
// Roofline:     tensor pipe; mma.sync reaches at most 2/3 of the wgmma FLOPs on Hopper.
// Bubble:       issue, planted; without, a little of each.
// Launch:       grid m / 128 * n / 256, block 256, dynamic shared memory: the ring, at least 64 KB. One CTA per SM.
// Precondition: m a multiple of 128, n of 256, k of 64 (checked before launch), 16-byte aligned pointers. Both ways
//               give the same result where scale is a power of two.
// Parameters:   -DDISEASE=DISEASE_NONE|DISEASE_DEQUANT_ISSUE -DSTAGES=2..5, and -DSTRENGTH=1|4 where it is not the
//               usual.
constexpr int kThreads = 256;

// What planted_gemm may have, and this kernel never.
#define DISEASE_NO_ASYNC -1
#define DISEASE_NARROW_COPIES -1
#define DISEASE_UNCOALESCED -1
#define DISEASE_ADDRESS_ARITHMETIC -1
#define DISEASE_BANK_CONFLICTS -1
#define DISEASE_EXCESS_BARRIERS -1
#define DISEASE_DEPENDENT_MMA -1
#include "planted_copies.cuh"
#include "planted_tile.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kTileM = 128, kTileN = 256, kTileK = 64, kSteps = kTileK / kK;
constexpr int kRowA = kTileK, kRowB = kTileN * 2;  // bytes
constexpr int kBand = 16;                          // rows of tiles per band
constexpr float kZero = 128.0f;                    // the byte that stands for 0
constexpr int kGroups = is(DISEASE_DEQUANT_ISSUE) ? strength(2) : 1;  // of columns, for each of which A is converted
static_assert(STAGES > 1, "a tile is read while another is written");

using Ring = Copies<kTileM, kRowA, kTileK, kRowB>;

__device__ __forceinline__ float slowly(uint32_t word, int byte, float scale) {
    return (static_cast<float>(word >> 8 * byte & 0xff) - kZero) * scale;
}

// Bytes `first` and `first` + 1 of `word` as two halves.
__device__ __forceinline__ uint32_t converted(uint32_t word, int first, float scale) {
    if (is(DISEASE_DEQUANT_ISSUE)) return pack<half>(slowly(word, first, scale), slowly(word, first + 1, scale));
    const uint32_t above = __byte_perm(word, 0x64646464, first ? 0x4342 : 0x4140);  // 1024 + byte
    const half2 value = __hsub2(reinterpret_cast<const half2&>(above), __float2half2_rn(1024.0f + kZero));
    return reinterpret_cast<const uint32_t&>(value);
}

// A of two steps for one warp, in bytes: 64 x 32. In a 16 x 32 tile, words 0 and 1 are upper and lower half of the
// first step, words 2 and 3 of the second.
struct Bytes {
    uint32_t words[kWarpM / 16][4];

    __device__ __forceinline__ void load(uint32_t lane, int pair) {
#pragma unroll
        for (int i = 0; i < kWarpM / 16; ++i) ldmatrix_x4(words[i], (lane ^ pair * 2 * kPiece) + i * 16 * kRowA);
    }

    // The fragment of rows i * 16 to i * 16 + 15 in one of the two steps. `zero` is 0, and unknown to the compiler: for
    // another shift of it the conversion has to be done again.
    __device__ __forceinline__ void convert(uint32_t (&a)[4], int i, int step, float scale, uint32_t zero) const {
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
            const uint32_t word = words[i][step * 2 + lower] | zero;
            a[lower] = converted(word, 0, scale);
            a[lower + 2] = converted(word, 2, scale);
        }
    }
};

// STAGES - 1 tiles are on their way while one is multiplied. lane_a, lane_b: the lane's addresses for ldmatrix.
__device__ __forceinline__ void multiply_ahead(Ring& copies, uint32_t lane_a, uint32_t lane_b, int tiles, float scale,
                                               WarpTile& tile) {
    constexpr int kColumnsOfGroup = WarpTile::kColumns / kGroups;
    Bytes bytes[2];
    uint32_t b[2][kWarpN / 16][4], read = 0;
    bytes[0].load(lane_a, 0);
    load_b<kRowB>(b[0], lane_b, 0);
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            const int pair = step / 2;
            if (step == kSteps - 1) {
                // STAGES + t groups are committed here: with at most STAGES - 2 pending, this thread's part of tile
                // t + 1 is in.
                cp_async_wait<STAGES - 2>();
                __syncthreads();  // everybody's part of tile t + 1 is in, and everybody has finished reading tile t
                Ring::step(read);
            }
            // After the last tile this reads a stage that nobody writes any more, and nobody uses what it holds.
            load_b<kRowB>(b[(step + 1) % 2], lane_b + read, (step + 1) % kSteps);
            if (step % 2) bytes[1 - pair].load(lane_a + read, 1 - pair);
            if (step < kSteps - 1) copies.issue(step, kSteps - 1);  // into the stage of tile t - 1
            if (step == kSteps - 2) copies.close();
#pragma unroll
            for (int i = 0; i < kWarpM / 16; ++i)
#pragma unroll
                for (int group = 0; group < kGroups; ++group) {
                    uint32_t a[4];
                    bytes[pair].convert(a, i, step % 2, scale, group ? tile.zero * 0x01010101u << group : 0);
                    tile.multiply(i, a, b[step % 2], group * kColumnsOfGroup, (group + 1) * kColumnsOfGroup);
                }
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
planted_dequant(const uint8_t* __restrict__ a, const half* __restrict__ b, half* __restrict__ c, int m, int n, int k,
                float scale) {
    extern __shared__ __align__(1024) char ring[];
    constexpr int kColumnsOfWarps = kTileN / kWarpN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / kColumnsOfWarps * kWarpM, warp_column = warp % kColumnsOfWarps * kWarpN;
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const size_t row = static_cast<size_t>(place.row) * kTileM, column = static_cast<size_t>(place.column) * kTileN;

    const int tiles = k / kTileK;
    Ring copies(ring, a + row * k, k, b + column, n * 2, tiles);
#pragma unroll
    for (int t = 0; t < STAGES - 1; ++t) {
        copies.issue(0, 1);
        copies.close();
    }
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // tile 0 is in

    const int lane_row = ldmatrix_row(lane), lane_byte = ldmatrix_half(lane) * kPiece;
    const uint32_t lane_a = shared_address(ring) + placed<kRowA>(warp_row + lane_row, lane_byte);
    const uint32_t lane_b = shared_address(ring) + Ring::kBytesA + placed<kRowB>(lane_row, warp_column * 2 + lane_byte);
    WarpTile tile(m);
    multiply_ahead(copies, lane_a, lane_b, tiles, scale, tile);
    __syncthreads();  // nobody reads the ring any more: the results may pass through it
    tile.store(ring + warp * kWarpM * kRowC, c + (row + warp_row) * n + column + warp_column, n,
               is(DISEASE_DEQUANT_ISSUE) ? 1.0f : scale);
}
