// warp_relay: warps that keep each other waiting, by known times. What a trace of it must show is known beforehand.
//
// In every round one warp of the CTA is busy for `cycles` cycles while all others wait for it at the barrier; then all
// compute alike. The last warp leaves early. Build it with the probe, and let ncubble run it:
//
//     nvcc -O3 -arch=native -DBUBBLE_PROBE -I DIR warp_relay.cu -o warp_relay     (DIR: where bubble_probe.cuh lies)
//     ncubble trace -- ./warp_relay
#define BUBBLE_OWN_TAGS(X) X(relay)
#include "bubble_probe.cuh"

#include <cstdio>

__device__ void busy(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
}

__global__ void warp_relay(float* data, int rounds, int cycles) {
    BUBBLE_WARP(probe, warp);
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float x = threadIdx.x;
    for (int t = 0; t < rounds; ++t) {
        if (warp == t % warps) BUBBLE_STEP(probe, relay, t, busy(cycles));
        BUBBLE_STEP(probe, wait_sync, t, __syncthreads());
        BUBBLE_STEP(probe, compute, t);
#pragma unroll 16
        for (int i = 0; i < 1024; ++i) x = x * 1.0001f + 0.5f;
        data[blockIdx.x * blockDim.x + threadIdx.x] = x;
    }
    if (warp == warps - 1) return;  // early exit: the probe ends with its warp
    BUBBLE_STEP(probe, store, rounds, data[blockIdx.x * blockDim.x + threadIdx.x] = 2 * x);
}

int main() {
    const int ctas = 264, threads = 128;
    float* data = nullptr;
    cudaMalloc(&data, ctas * threads * sizeof(float));
    bubble::Trace trace;  // records until the end of main
    for (int launch = 0; launch < 2; ++launch) warp_relay<<<ctas, threads>>>(data, 16, 20000);
    const cudaError_t status = cudaDeviceSynchronize();
    if (status != cudaSuccess) std::printf("%s\n", cudaGetErrorString(status));
    return status != cudaSuccess;
}
