// async_copy_manual: y = 2 x, staged global -> register -> shared memory -> global.  Copies, without any async copy.
//
// Shapes:       x (n), y (n), float; any n.
// Tile:         chunks of THREADS x ITEMS x 16 bytes; STAGES buffers of one chunk.
// Idea:         STAGES = 1: load, store to shared memory, wait, process, wait: nothing of one CTA overlaps. STAGES = 2:
//               the loads of the next chunk are issued before this chunk is processed and stay in registers meanwhile;
//               two buffers in turn make one barrier per chunk enough.
// Seed 001:     its manual_async_copy has no asynchronous operation at all, overwrites a buffer that others still read,
//               and reads the next block's data past the end. What overlaps here is the load's latency (a load does not
//               block until its register is read), and every CTA keeps to its own chunks.
//               Loads and stores carry no cache hint: on an H200 streaming ones (.cs) cost 4 to 6 % of the bandwidth.
// Roofline:     DRAM: 8 bytes per element.
// Bubble:       data_wait at the shared store with one stage, as far as the other CTAs of the SM do not hide it.
// Launch:       grid CTAS x SMs (at most one CTA per chunk), block THREADS, dynamic shared memory STAGES chunks.
// Precondition: 16-byte aligned pointers.
// Parameters:   -DSTAGES=1|2 -DTHREADS=128|256|512 -DITEMS=1|2|4|8 -DWORK=0|16|64|256 (FMAs per element)
#include "copy_body.cuh"

using namespace ncubble;

namespace {

__device__ __forceinline__ void load(float4 (&registers)[ITEMS], const Share& share, int chunk) {
    const float4* source = share.x + share.start(chunk);
    for_own_pieces(share.pieces(chunk), [&](int piece, int i) { registers[i] = source[piece]; });
}

__device__ __forceinline__ void stage(float4* shared, const float4 (&registers)[ITEMS], const Share& share, int chunk) {
    for_own_pieces(share.pieces(chunk), [&](int piece, int i) { shared[piece] = registers[i]; });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
async_copy_manual(const float* __restrict__ x, float* __restrict__ y, int n) {
    extern __shared__ __align__(16) float4 buffers[];
    const Share share(x, y, n / 4);
    float4 registers[ITEMS];
    if (STAGES > 1 && share.chunks > 0) load(registers, share, 0);
    for (int chunk = 0; chunk < share.chunks; ++chunk) {
        float4* shared = &buffers[chunk % STAGES * kPieces];
        if (STAGES == 1) load(registers, share, chunk);
        stage(shared, registers, share, chunk);
        if (STAGES > 1 && chunk + 1 < share.chunks) load(registers, share, chunk + 1);
        __syncthreads();  // the chunk is in; with two buffers also: nobody reads the other one any more
        process_chunk(shared, share, chunk);
        if (STAGES == 1) __syncthreads();  // nobody reads this buffer any more
    }
    process_rest(x, y, n);
}
