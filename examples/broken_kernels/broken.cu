// Doubles a vector, or does what a sweep has to outlive. MODE: 0 right, 1 writes to a bad address, 2 never ends, 3 traps.
extern "C" __global__ void broken(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (MODE == 1 && i == 7) *reinterpret_cast<volatile float*>(0x10) = 1.0f;
    if (MODE == 2) {
        const volatile float* again = x;
        while (again[0] != 12345.0f) {
        }
    }
    if (MODE == 3 && i == 9) asm volatile("trap;");
    if (i < n) out[i] = 2.0f * x[i];
}
