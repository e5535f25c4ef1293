// saxpy: out = a * x + y, one element per thread.
extern "C" __global__ void saxpy(const float* x, const float* y, float* out, float a, int n) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
