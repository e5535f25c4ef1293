// Six steps of a kernel that is named like one of NCCL, and a product; ends with the status that is named.
#include <cstdio>
#include <cstdlib>

extern "C" __global__ void ncclDevKernel_x(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f; }

extern "C" __global__ void product(float* x) {
  float sum = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int i = 0; i < 32768; i++) sum = sum * 0.999f + 0.5f;
  x[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main(int count, char** words) {
  float* x = nullptr;
  cudaMalloc(&x, 1024 * 256 * sizeof(float));
  cudaMemset(x, 0, 1024 * 256 * sizeof(float));
  for (int step = 0; step < 6; step++) {
    ncclDevKernel_x<<<1024, 256>>>(x);
    product<<<1024, 256>>>(x);
    cudaDeviceSynchronize();
  }
  const int status = count > 1 ? atoi(words[1]) : 0;
  if (status) fprintf(stderr, "Error: this version is refused\n");
  return status;
}
