// spin: kernels that last a given time, and say when and where they ran.
//
// Launch:       any grid; `stamps` holds one entry per CTA, or is null. Times are those of the global timer, in ns.
struct Stamp {
    unsigned long long start, end;
    unsigned int sm, unused;
};

__device__ __forceinline__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

// Every CTA spins for `ns`. Dynamic shared memory decides how many fit an SM.
extern "C" __global__ void spin(long long ns, Stamp* stamps) {
    const unsigned long long start = now();
    while (now() - start < static_cast<unsigned long long>(ns)) {
    }
    if (stamps != nullptr && threadIdx.x == 0) {
        unsigned int sm;
        asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
        stamps[blockIdx.x] = {start, now(), sm, 0};
    }
}

// x[i] = value, by all threads of the grid.
extern "C" __global__ void put(int* x, long long n, int value) {
    for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * static_cast<long long>(blockDim.x))
        x[i] = value;
}

// x[i] += 1, by all threads of the grid.
extern "C" __global__ void increment(int* x, long long n) {
    for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * static_cast<long long>(blockDim.x))
        x[i] += 1;
}

extern "C" __global__ void nothing() {}
