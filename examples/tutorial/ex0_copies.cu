// Exercise 0: y = 2 x. A chunk goes global -> register -> shared, and the CTA waits for it before it processes it.
//
// Your task: let cuda::pipeline copy chunks into STAGES buffers, so that STAGES - 1 chunks are on their way meanwhile.
//   1. Its state is shared: __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
//      auto pipeline = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
//   2. To fill a buffer: producer_acquire(), cuda::memcpy_async(group, shared, global, cuda::aligned_size_t<16>(bytes),
//      pipeline), producer_commit(). To use the oldest one: consumer_wait(), process, consumer_release().
//   3. How many chunks may be asked for before the first one is waited for? When may the next one be?
//
// kernels/cuda/copy_body.cuh says which chunks are a CTA's, and processes them.
// Launch: CTAs loop over chunks of 512 x 4 x 16 bytes, block 512, dynamic shared memory STAGES chunks; any n.
#include "copy_body.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(THREADS)
ex0_copies(const float* __restrict__ x, float* __restrict__ y, int n) {
    extern __shared__ __align__(16) float4 buffers[];
    const Share share(x, y, n / 4);
    for (int chunk = 0; chunk < share.chunks; ++chunk) {
        float4 registers[ITEMS];
        const float4* source = share.x + share.start(chunk);
        for_own_pieces(share.pieces(chunk), [&](int piece, int i) { registers[i] = source[piece]; });
        for_own_pieces(share.pieces(chunk), [&](int piece, int i) { buffers[piece] = registers[i]; });
        __syncthreads();  // the chunk is in
        process_chunk(buffers, share, chunk);
        __syncthreads();  // nobody reads the buffer any more
    }
    process_rest(x, y, n);
}
