// A program in CUDA C++ for `ncubble program`: steps of two products, an activation and a reduction on two streams.
//
//   nvcc -O3 -arch=native -lineinfo program_layers.cu -o program_layers
//   ncubble program --nvtx step -- ./program_layers 20
//
// The products are tiled, without tensor cores. The reduction runs beside the second product, on a stream of its own;
// the host reads its result at the end of every step.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                   \
  do {                                                                \
    cudaError_t status = (call);                                      \
    if (status != cudaSuccess) {                                      \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status)); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

constexpr int kTile = 32;

__global__ void product(const float* a, const float* b, float* c, int n) {
  __shared__ float left[kTile][kTile], right[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int at = 0; at < n; at += kTile) {
    left[threadIdx.y][threadIdx.x] = a[row * n + at + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void activate(float* x, int n) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) x[at] = x[at] > 0.0f ? x[at] : 0.01f * x[at];
}

__global__ void total(const float* x, float* sum, int n) {
  float own = 0.0f;
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) own += x[at];
  for (int lane = 16; lane; lane /= 2) own += __shfl_down_sync(0xffffffffu, own, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

int main(int count, char** given) {
  const int steps = count > 1 ? atoi(given[1]) : 20, n = count > 2 ? atoi(given[2]) / kTile * kTile : 2048;
  if (steps < 1 || n < kTile) return fprintf(stderr, "steps and a size of at least %d\n", kTile), 2;
  const size_t bytes = sizeof(float) * n * n;
  float *a, *b, *c, *d, *sum, host = 0.0f;
  for (float** array : {&a, &b, &c, &d}) {
    CHECK(cudaMalloc(array, bytes));
    CHECK(cudaMemset(*array, 0, bytes));
  }
  CHECK(cudaMalloc(&sum, sizeof *sum));
  cudaStream_t main_stream, side;
  cudaEvent_t ready, summed;
  CHECK(cudaStreamCreateWithFlags(&main_stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&summed, cudaEventDisableTiming));
  const dim3 tiles(n / kTile, n / kTile), threads(kTile, kTile);
  for (int step = 0; step < steps; ++step) {
    nvtxRangePushA("step");
    product<<<tiles, threads, 0, main_stream>>>(a, b, c, n);
    activate<<<(n * n + 255) / 256, 256, 0, main_stream>>>(c, n * n);
    CHECK(cudaEventRecord(ready, main_stream));
    CHECK(cudaStreamWaitEvent(side, ready));
    CHECK(cudaMemsetAsync(sum, 0, sizeof *sum, side));
    total<<<264, 256, 0, side>>>(c, sum, n * n);
    CHECK(cudaEventRecord(summed, side));
    product<<<tiles, threads, 0, main_stream>>>(c, b, d, n);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamWaitEvent(main_stream, summed));
    CHECK(cudaMemcpyAsync(&host, sum, sizeof host, cudaMemcpyDeviceToHost, main_stream));
    CHECK(cudaStreamSynchronize(main_stream));
    nvtxRangePop();
  }
  printf("sum %g\n", host);
  return 0;
}
