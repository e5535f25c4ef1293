// planted_local: each thread halves the entries of an array of its own, and adds them up.
//
// Shapes:       x (n,), y (n,), float.
// Idea:         INDEX=runtime: the compiler does not know which entry is next, so the array lies in local memory:
//               256 bytes of each thread, more than L1 and L2 hold. constant: it lies in registers.
//               ENTRIES=32 with WORK and few threads: 128 bytes of each, which stay in L1, beside hundreds of multiply-adds.
// Roofline:     fp32 FMA.
// Bubble:       ENTRIES=64 INDEX=runtime: local memory fills L2 and DRAM (local_memory). Others: not that.
// Launch:       grid n / 256, block 256.
// Precondition: n a multiple of 256 (checked before launch).
// Parameters:   -DENTRIES=32|64 -DINDEX=INDEX_RUNTIME|INDEX_CONSTANT -DWORK=0|512
#include <cstddef>

extern "C" __global__ void __launch_bounds__(256)
planted_local(const float* __restrict__ x, float* __restrict__ y, int, int stride, float one, float zero) {
    const size_t i = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
    const float first = x[i];
    float entries[ENTRIES];  // up to 24 of them would become registers and selects
#pragma unroll
    for (int entry = 0; entry < ENTRIES; ++entry) entries[entry] = first * (entry + 1);
#if INDEX == INDEX_RUNTIME
#pragma unroll 1
    for (int step = 0; step < ENTRIES; ++step) {
        const int entry = (step * stride) % ENTRIES;  // `stride` is odd: each entry once
#else
#pragma unroll
    for (int entry = 0; entry < ENTRIES; ++entry) {
#endif
        float value = entries[entry] * 0.5f;
#pragma unroll 16
        for (int work = 0; work < WORK; ++work) value = value * one + zero;
        entries[entry] = value;
    }
    float sum = 0.0f;
#pragma unroll
    for (int entry = 0; entry < ENTRIES; ++entry) sum += entries[entry];
    y[i] = sum;
}
