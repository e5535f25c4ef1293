// Exercise 0, solved: a pipeline of STAGES buffers. The machine code is that of kernels/cuda/async_copy_pipeline.cu.
#include <cooperative_groups.h>

#include <cuda/pipeline>

#include "copy_body.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(THREADS)
ex0_copies(const float* __restrict__ x, float* __restrict__ y, int n) {
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
        if (chunk + STAGES < share.chunks) issue(chunk + STAGES);  // its buffer is the one that was just released
    }
    process_rest(x, y, n);
}
