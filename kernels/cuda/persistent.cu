// persistent: many small batches of one row operation, as one launch or as many.  Rung 12.
//
// Shapes:       x (batches, rows, cols), w (cols), y as x, row-major float; cols a multiple of 4, at most 1024.
//               y = x / sqrt(mean(x^2) + 1e-5) * w: each row scaled to unit mean square, times a weight per column.
// Tile:         THREADS / 32 rows of one batch; a warp keeps its row, and the one after it, in registers.
// Idea:         one loop over tiles, three ranges:
//               MODE=many        a launch per batch: its CTAs take one tile each.
//               MODE=grid        one launch, a CTA per tile: no gaps between batches, but each CTA starts anew.
//               MODE=persistent  one launch of CTAS x SMs CTAs, which fit the GPU at once: each loads the weights once,
//                                and the next row while it works on this one.
//               The code of a tile is the same, so a difference in time is a difference of launching.
// Roofline:     DRAM: 8 bytes per element.
// Bubble:       MODE=many: launch gaps, ramp and tail of every batch; MODE=grid: weights and first row of every CTA are
//               waited for; MODE=persistent: the tail (7 % on an H200, where the default shape leaves 8 of its 8192
//               tiles to a last round of 264 CTAs).
// Launch:       grid: many ceil(rows / (THREADS / 32)), grid batches times that, persistent CTAS x SMs; block THREADS.
// Precondition: 16-byte aligned pointers.
// Parameters:   -DMODE=many|grid|persistent -DCTAS=1|2|3|4 (per SM, persistent; more than 512 / THREADS of them run in
//               a second wave: registers are full) -DTHREADS=128|256
#include <cstddef>

namespace {

constexpr int kWarps = THREADS / 32;
constexpr int kPieces = 8;  // 16-byte pieces of a row per lane: 1024 columns
constexpr float kEpsilon = 1e-5f;

// A row, or the weights, spread over a warp; pieces past its end are zero.
struct Row {
    float4 pieces[kPieces];

    __device__ __forceinline__ void load(const float* source, int lane, int quads) {
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            const int at = lane + i * 32;
            pieces[i] = at < quads ? __ldg(reinterpret_cast<const float4*>(source) + at) : make_float4(0, 0, 0, 0);
        }
    }

    __device__ __forceinline__ float sum_of_squares() const {  // of the whole row, in every lane
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
            sum += pieces[i].x * pieces[i].x + pieces[i].y * pieces[i].y + pieces[i].z * pieces[i].z +
                   pieces[i].w * pieces[i].w;
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
        return sum;
    }

    __device__ __forceinline__ void store(float* target, const Row& weight, float scale, int lane, int quads) const {
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
            if (const int at = lane + i * 32; at < quads)
                __stcs(reinterpret_cast<float4*>(target) + at,
                       make_float4(pieces[i].x * scale * weight.pieces[i].x, pieces[i].y * scale * weight.pieces[i].y,
                                   pieces[i].z * scale * weight.pieces[i].z, pieces[i].w * scale * weight.pieces[i].w));
    }
};

// Tiles are numbered through all batches; the last one of a batch may have rows to spare.
struct Tiles {
    int rows, cols, per_batch, first, end;

    __device__ __forceinline__ Tiles(int batches, int rows, int cols, int launch)
        : rows(rows), cols(cols), per_batch((rows + kWarps - 1) / kWarps) {
        first = (MODE == MODE_MANY ? launch * per_batch : 0) + blockIdx.x;
        end = (MODE == MODE_MANY ? launch + 1 : batches) * per_batch;
    }
    // Whether this warp has a row in the tile: there is such a tile, and the batch such a row.
    __device__ __forceinline__ bool has(int tile, int warp) const { return tile < end && row(tile, warp) < rows; }
    __device__ __forceinline__ int row(int tile, int warp) const { return tile % per_batch * kWarps + warp; }
    // Where the warp's row begins, in floats.
    __device__ __forceinline__ size_t offset(int tile, int warp) const {
        return (static_cast<size_t>(tile / per_batch) * rows + row(tile, warp)) * cols;
    }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS)
persistent(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int batches, int rows,
           int cols, int launch) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quads = cols / 4;
    const Tiles tiles(batches, rows, cols, launch);
    Row weight, next;
    if (tiles.has(tiles.first, warp)) next.load(x + tiles.offset(tiles.first, warp), lane, quads);
    weight.load(w, lane, quads);
    for (int tile = tiles.first; tile < tiles.end; tile += gridDim.x) {
        const Row row = next;
        const int after = tile + gridDim.x;
        if (tiles.has(after, warp)) next.load(x + tiles.offset(after, warp), lane, quads);
        if (!tiles.has(tile, warp)) continue;  // whole warps: the sum needs all lanes
        const float scale = rsqrtf(row.sum_of_squares() / cols + kEpsilon);
        row.store(y + tiles.offset(tile, warp), weight, scale, lane, quads);
    }
}
