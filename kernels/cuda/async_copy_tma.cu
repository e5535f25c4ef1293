// async_copy_tma: y = 2 x, loaded and stored by TMA, processed in place in shared memory.  Copies, the way of Hopper.
//
// Shapes:       x (n), y (n), float; any n.
// Tile:         chunks of THREADS x ITEMS x 16 bytes; STAGES buffers of one chunk.
// Idea:         one thread asks for whole chunks, the copy engine computes the addresses. A load ends at an mbarrier
//               that counts its bytes, a store is waited for before its buffer is loaded again. With one stage nothing
//               of a CTA overlaps; with more, STAGES - 1 chunks are on their way while one is processed.
//               PATH=tensor: one-dimensional tensor maps in boxes of 256 floats (the longest edge of a box). What lies
//               past the map's end reads as zero and is not written.
//               PATH=bulk: one copy per chunk without a map; addresses and sizes in multiples of 16 bytes.
//               The last n % 4 elements go another way on both paths. A map does not clip within 16 bytes: on an H200
//               a store to a map of 1000003 floats wrote past its end, so the map covers n / 4 * 4 of them.
// Seed 001:     its TMA example is pseudocode, and calls TMA a unit of "Ampere and later": it needs compute capability
//               9.0. The map is made on the host with a box, strides in bytes and a swizzle mode, and is a
//               __grid_constant__ parameter; what makes loaded data visible is the mbarrier, not __syncthreads(); what
//               makes written data visible to the store is fence.proxy.async by every writer, then __syncthreads().
// Roofline:     DRAM: 8 bytes per element.
// Bubble:       with one stage the wait for load and store.
// Launch:       grid CTAS x SMs (at most one CTA per chunk), block THREADS, dynamic shared memory STAGES chunks.
// Precondition: 16-byte aligned pointers; compute capability 9.0.
// Parameters:   -DSTAGES=1..4 -DTHREADS=128|256|512 -DITEMS=1|2|4|8 -DWORK=0|16|64|256 (FMAs per element)
//               -DPATH=tensor|bulk
#include "copy_body.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"

using namespace ncubble;

namespace {

constexpr int kBox = 256;  // floats
constexpr int kBoxPieces = kBox / 4;
static_assert(kPieces % kBoxPieces == 0, "a chunk consists of whole boxes");

__device__ __forceinline__ int boxes(const Share& share, int chunk) {
    return (share.pieces(chunk) + kBoxPieces - 1) / kBoxPieces;
}

__device__ __forceinline__ void load(float4* shared, const TensorMap& map, uint64_t* full, const Share& share,
                                     int chunk) {
    if constexpr (PATH == PATH_TENSOR) {
        const int count = boxes(share, chunk);
        mbarrier_arrive_expect(full, count * kBox * sizeof(float));  // boxes count in full, also past the array's end
        for (int box = 0; box < count; ++box)
            tma_load(&shared[box * kBoxPieces], map, full, share.start(chunk) * 4 + box * kBox);
    } else {
        const uint32_t bytes = share.pieces(chunk) * sizeof(float4);
        mbarrier_arrive_expect(full, bytes);
        bulk_load(shared, share.x + share.start(chunk), bytes, full);
    }
}

__device__ __forceinline__ void store(const TensorMap& map, const float4* shared, const Share& share, int chunk) {
    if constexpr (PATH == PATH_TENSOR) {
        for (int box = 0; box < boxes(share, chunk); ++box)
            tma_store(map, &shared[box * kBoxPieces], share.start(chunk) * 4 + box * kBox);
    } else {
        bulk_store(share.y + share.start(chunk), shared, share.pieces(chunk) * sizeof(float4));
    }
    tma_store_commit();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
async_copy_tma(const __grid_constant__ TensorMap map_x, const __grid_constant__ TensorMap map_y,
               const float* __restrict__ x, float* __restrict__ y, int n) {
    extern __shared__ __align__(128) float4 buffers[];
    // 128 bytes: debug builds place the buffers right behind it, without the alignment that they ask for.
    __shared__ alignas(128) uint64_t full[16];
    static_assert(STAGES <= 16);
    const bool issuer = threadIdx.x == 0;
    const Share share(x, y, n / 4);

    if (issuer) {
        for (int slot = 0; slot < STAGES; ++slot) mbarrier_init(&full[slot], 1);
        mbarrier_init_fence();
        for (int chunk = 0; chunk < min(STAGES, share.chunks); ++chunk)
            load(&buffers[chunk * kPieces], map_x, &full[chunk], share, chunk);
    }
    __syncthreads();  // nobody waits for a barrier that is not initialized

    Ring<STAGES> ring;
    for (int chunk = 0; chunk < share.chunks; ++chunk) {
        float4* shared = &buffers[ring.slot * kPieces];
        // The buffer of the chunk before is loaded again once its store has read it; with one buffer that is this one.
        if (const int next = chunk - 1 + STAGES; issuer && chunk > 0 && next < share.chunks) {
            const int slot = next % STAGES;
            tma_store_wait_read<0>();
            load(&buffers[slot * kPieces], map_x, &full[slot], share, next);
        }
        mbarrier_wait(&full[ring.slot], ring.parity);
        for_own_pieces(share.pieces(chunk), [&](int piece, int) { shared[piece] = process(shared[piece]); });
        fence_async_proxy();
        __syncthreads();  // the whole chunk is processed
        if (issuer) store(map_y, shared, share, chunk);
        ring.next();
    }
    if (issuer) tma_store_wait_read<0>();  // shared memory lives until the last store has read it
    process_rest(x, y, n);
}
