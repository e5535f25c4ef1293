// async_copy_pipeline: y = 2 x, staged by cuda::memcpy_async and cuda::pipeline.  Copies, the way of libcu++.
//
// Shapes:       x (n), y (n), float; any n.
// Tile:         chunks of THREADS x ITEMS x 16 bytes; STAGES buffers of one chunk.
// Idea:         the pipeline counts stages: a producer acquires one, copies, commits; a consumer waits for the oldest,
//               uses it, releases it. Here every thread is both. With one stage nothing overlaps, with two or more the
//               copies of STAGES - 1 chunks are in flight while a chunk is processed.
// Seed 001:     its pipelines cannot be constructed (there is no default constructor: a block-wide pipeline needs
//               shared state and make_pipeline), its single-buffer example reads the buffer while the copy is in
//               flight, its double-buffer example swaps the buffers before their first use, and every block copies the
//               whole array.
// Roofline:     DRAM: 8 bytes per element.
// Bubble:       with one stage the wait for the copy; a block-wide pipeline waits by mbarrier, two waits per chunk.
// Launch:       grid CTAS x SMs (at most one CTA per chunk), block THREADS, dynamic shared memory STAGES chunks.
// Precondition: 16-byte aligned pointers.
// Parameters:   -DSTAGES=1..4 -DTHREADS=128|256|512 -DITEMS=1|2|4|8 -DWORK=0|16|64|256 (FMAs per element)
#include <cooperative_groups.h>

#include <cuda/pipeline>

#include "copy_body.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(THREADS)
async_copy_pipeline(const float* __restrict__ x, float* __restrict__ y, int n) {
    // Behind the static state: without the alignment, with 2 or 4 stages, buffers would begin amid 32 bytes, and every
    // sector of 32 bytes that arrives would be written to two of shared memory.
    extern __shared__ __align__(128) float4 buffers[];
#pragma nv_diag_suppress static_var_with_dynamic_init  // make_pipeline initializes it
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    const auto block = cooperative_groups::this_thread_block();
    auto pipeline = cuda::make_pipeline(block, &state);
    const Share share(x, y, n / 4);

    auto issue = [&](int chunk) {
        pipeline.producer_acquire();  // waits until every thread has released what the buffer held before
        cuda::memcpy_async(block, &buffers[chunk % STAGES * kPieces], share.x + share.start(chunk),
                           cuda::aligned_size_t<16>(share.pieces(chunk) * size_t{16}), pipeline);
        pipeline.producer_commit();
    };

    for (int chunk = 0; chunk < min(STAGES, share.chunks); ++chunk) issue(chunk);
    for (int chunk = 0; chunk < share.chunks; ++chunk) {
        pipeline.consumer_wait();  // every thread's part of the oldest chunk is in
        process_chunk(&buffers[chunk % STAGES * kPieces], share, chunk);
        pipeline.consumer_release();
        if (chunk + STAGES < share.chunks) issue(chunk + STAGES);
    }
    process_rest(x, y, n);
}
