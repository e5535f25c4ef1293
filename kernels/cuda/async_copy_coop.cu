// async_copy_coop: y = 2 x, staged by cooperative_groups::memcpy_async.  Copies, the way of cooperative groups.
//
// Shapes:       x (n), y (n), float; any n.
// Tile:         chunks of THREADS x ITEMS x 16 bytes; STAGES buffers of one chunk.
// Idea:         memcpy_async commits one group per call; wait_prior<N> waits until at most the newest N are in flight
//               and then synchronizes the CTA, so it needs no barrier of its own. With two or more buffers one such
//               wait per chunk is enough: it also says that everybody has finished with the chunk before.
// Seed 001:     its loop waits for each copy at once, so nothing overlaps, starts the next copy into a buffer that
//               others may still read (a sync is missing), and every block copies the whole array.
// Roofline:     DRAM: 8 bytes per element.
// Bubble:       with one stage the wait for the copy.
// Launch:       grid CTAS x SMs (at most one CTA per chunk), block THREADS, dynamic shared memory STAGES chunks.
// Precondition: 16-byte aligned pointers.
// Parameters:   -DSTAGES=1..4 -DTHREADS=128|256|512 -DITEMS=1|2|4|8 -DWORK=0|16|64|256 (FMAs per element)
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

#include "copy_body.cuh"

using namespace ncubble;
namespace cg = cooperative_groups;

extern "C" __global__ void __launch_bounds__(THREADS)
async_copy_coop(const float* __restrict__ x, float* __restrict__ y, int n) {
    extern __shared__ __align__(16) float4 buffers[];
    constexpr int kAhead = STAGES > 1 ? STAGES - 1 : 1;  // chunks that are in flight when one is waited for
    const auto block = cg::this_thread_block();
    const Share share(x, y, n / 4);

    // Exactly one group is committed per call, empty past the last chunk, so that counting groups counts chunks.
    auto issue = [&](int chunk) {
        const bool any = chunk < share.chunks;
        cg::memcpy_async(block, &buffers[chunk % STAGES * kPieces], share.x + (any ? share.start(chunk) : 0),
                         (any ? share.pieces(chunk) : 0) * sizeof(float4));
    };

    for (int chunk = 0; chunk < kAhead; ++chunk) issue(chunk);
    for (int chunk = 0; chunk < share.chunks; ++chunk) {
        cg::wait_prior<kAhead - 1>(block);
        if (STAGES > 1) issue(chunk + kAhead);  // into the buffer of chunk - 1, which nobody reads any more
        process_chunk(&buffers[chunk % STAGES * kPieces], share, chunk);
        if (STAGES == 1) {
            block.sync();  // nobody reads the only buffer any more
            issue(chunk + 1);
        }
    }
    process_rest(x, y, n);
}
