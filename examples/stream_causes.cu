// A compiled program for `ncubble streams`: one planted cause per mode, so that its account can be held against it.
//
//   nvcc -O2 -arch=native stream_causes.cu -o stream_causes
//   ncubble streams -- ./stream_causes pageable
//
// What it queues after its set-up counts, from cudaProfilerStart to cudaProfilerStop.
// Modes: pageable, pinned, malloc, sync, default, event, graph, sleep.
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                \
  do {                                                                             \
    cudaError_t status = (call);                                                   \
    if (status != cudaSuccess) {                                                   \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));              \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

__global__ void work(float* x, int n, int turns) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  float value = x[at];
  for (int i = 0; i < turns; ++i) value = value * 1.0001f + 0.5f;
  x[at] = value;
}

constexpr int kCount = 1 << 22;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr int kRounds = 10, kTurns = 400;

void launch(float* x, cudaStream_t stream) { work<<<kCount / 256, 256, 0, stream>>>(x, kCount, kTurns); }

void copies(bool pinned, float* device, cudaStream_t stream) {
  float* host = nullptr;
  if (pinned) CHECK(cudaMallocHost(&host, kBytes));
  else host = static_cast<float*>(calloc(kCount, sizeof(float)));
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    CHECK(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
    launch(device, stream);
  }
  CHECK(cudaStreamSynchronize(stream));
}

void allocations(cudaStream_t stream) {
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    float* own = nullptr;
    CHECK(cudaMalloc(&own, 8 * kBytes));
    launch(own, stream);
    CHECK(cudaFree(own));
  }
}

void host_waits(float* device, cudaStream_t stream, bool sleeps) {
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    launch(device, stream);
    if (sleeps) usleep(500);
    else CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaStreamSynchronize(stream));
}

// A download on the legacy default stream between kernels of a blocking stream: each waits for the other.
void default_stream(float* device) {
  cudaStream_t blocking;
  float* host = nullptr;
  CHECK(cudaStreamCreate(&blocking));
  CHECK(cudaMallocHost(&host, kBytes));
  float* other = nullptr;
  CHECK(cudaMalloc(&other, kBytes));
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    launch(device, blocking);
    CHECK(cudaMemcpyAsync(host, other, kBytes, cudaMemcpyDeviceToHost, 0));
  }
  CHECK(cudaDeviceSynchronize());
}

// Kernels wait, by an event, for an upload on another stream.
void events(float* device, cudaStream_t stream) {
  cudaStream_t uploads;
  cudaEvent_t there;
  float* host = nullptr;
  CHECK(cudaStreamCreateWithFlags(&uploads, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&there, cudaEventDisableTiming));
  CHECK(cudaMallocHost(&host, kBytes));
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    CHECK(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, uploads));
    CHECK(cudaEventRecord(there, uploads));
    CHECK(cudaStreamWaitEvent(stream, there, 0));
    launch(device, stream);
  }
  CHECK(cudaDeviceSynchronize());
}

void graph(float* device, cudaStream_t stream) {
  cudaGraph_t made;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kRounds; ++i) launch(device, stream);
  CHECK(cudaStreamEndCapture(stream, &made));
  CHECK(cudaGraphInstantiate(&ready, made, 0));
  CHECK(cudaProfilerStart());
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(ready, stream));
  CHECK(cudaStreamSynchronize(stream));
}

int main(int count, char** given) {
  const char* mode = count > 1 ? given[1] : "pageable";
  cudaStream_t stream;
  float* device = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&device, kBytes));
  launch(device, stream);
  CHECK(cudaStreamSynchronize(stream));
  if (!strcmp(mode, "pageable") || !strcmp(mode, "pinned")) copies(mode[1] == 'i', device, stream);
  else if (!strcmp(mode, "malloc")) allocations(stream);
  else if (!strcmp(mode, "sync") || !strcmp(mode, "sleep")) host_waits(device, stream, mode[1] == 'l');
  else if (!strcmp(mode, "default")) default_stream(device);
  else if (!strcmp(mode, "event")) events(device, stream);
  else if (!strcmp(mode, "graph")) graph(device, stream);
  else return fprintf(stderr, "no mode %s\n", mode), 2;
  CHECK(cudaProfilerStop());
  printf("%s done\n", mode);
  return count > 2 ? atoi(given[2]) : 0;
}
