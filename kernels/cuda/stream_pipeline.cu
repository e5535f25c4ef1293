// stream_pipeline: y = 2 x on chunks that stream through the device, copied up and down by the host.  Rung 13.
//
// Shapes:       x (n), y (n) on the host, row-major float; a launch sees one chunk of them in device memory.
// Tile:         1024 elements per CTA of 256 threads, four per thread as one 16-byte load and store.
// Idea:         the pipeline is the host's (kernels/host_streams/stream_pipeline.py): copy up, kernel, copy down, each on its own
//               engine, so that three chunks are in flight at once if nothing serializes them. The kernel only has to
//               take a known time: WORK dependent FMAs per element.
// Roofline:     the link between host and device; the kernel itself is bound by DRAM for small WORK, else by FMAs.
// Bubble:       between kernels, not within one: the SMs idle while the link brings the next chunk. The profiler of a
//               launch cannot see it; time against the sum of the three steps alone does.
// Launch:       per chunk: grid ceil(chunk / 1024), block 256.
// Precondition: 16-byte aligned pointers; any n up to the 2^24 floats of a chunk.
// Parameters:   -DWORK=0|64|512|2048
#include "linger.cuh"

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

template <int kWidth>
__device__ __forceinline__ void process(float (&values)[kWidth]) {
    ncubble::linger<WORK>(values);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values[j] *= 2.0f;
}

extern "C" __global__ void __launch_bounds__(kThreads)
stream_pipeline(const float* __restrict__ x, float* __restrict__ y, int n) {
    const int at = kPerThread * (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x));
    if (at + kPerThread <= n) {
        const float4 loaded = *reinterpret_cast<const float4*>(x + at);
        float values[kPerThread] = {loaded.x, loaded.y, loaded.z, loaded.w};
        process(values);
        *reinterpret_cast<float4*>(y + at) = make_float4(values[0], values[1], values[2], values[3]);
        return;
    }
#pragma unroll 1
    for (int i = at; i < n; ++i) {  // the array's last few
        float value[1] = {x[i]};
        process(value);
        y[i] = value[0];
    }
}
