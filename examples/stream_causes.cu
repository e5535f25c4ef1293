// A compiled program for `ncubble streams`: one planted cause per mode, so that its account can be held against it.
//
//   nvcc -O2 -arch=native stream_causes.cu -o stream_causes
//   ncubble streams -- ./stream_causes pageable
//
// What it queues after its set-up counts, from cudaProfilerStart to cudaProfilerStop.
// Modes: pageable, pinned, malloc, sync, default, event, graph, sleep; pool_zero, pool_max, register, download,
// event_sync, poll, small, graph_copy, legacy, thread.
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

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

float* pinned_memory() {
  float* host = nullptr;
  CHECK(cudaMallocHost(&host, kBytes));
  return host;
}

// Memory of a pool, given back before a synchronization: a threshold of 0 gives it back to the device there.
void pool(cudaStream_t stream, bool keeps) {
  cudaMemPool_t of_device;
  CHECK(cudaDeviceGetDefaultMemPool(&of_device, 0));
  unsigned long long threshold = keeps ? ~0ull : 0;
  CHECK(cudaMemPoolSetAttribute(of_device, cudaMemPoolAttrReleaseThreshold, &threshold));
  for (int i = -2; i < kRounds; ++i) {
    if (i == 0) CHECK(cudaProfilerStart());
    float* own = nullptr;
    CHECK(cudaMallocAsync(&own, 16 * kBytes, stream));
    launch(own, stream);
    CHECK(cudaFreeAsync(own, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
}

// Memory of the host is locked for every round, and copied from.
void registrations(float* device, cudaStream_t stream) {
  void* host = nullptr;
  if (posix_memalign(&host, 4096, kBytes)) exit(1);
  memset(host, 0, kBytes);
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    CHECK(cudaHostRegister(host, kBytes, cudaHostRegisterDefault));
    CHECK(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
    launch(device, stream);
    CHECK(cudaHostUnregister(host));
  }
}

// Every round ends with a copy that returns when it is done.
void downloads(float* device) {
  float* host = pinned_memory();
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    launch(device, 0);
    CHECK(cudaMemcpy(host, device, kBytes, cudaMemcpyDeviceToHost));
  }
}

// The host waits for an event, or asks again and again.
void until_event(float* device, cudaStream_t stream, bool polls) {
  cudaEvent_t done;
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    launch(device, stream);
    CHECK(cudaEventRecord(done, stream));
    if (!polls) CHECK(cudaEventSynchronize(done));
    else while (cudaEventQuery(done) == cudaErrorNotReady) {}
  }
}

// Kernels that take less time than to launch them.
void small(float* device, cudaStream_t stream) {
  CHECK(cudaProfilerStart());
  for (int i = 0; i < 50 * kRounds; ++i) work<<<1, 32, 0, stream>>>(device, 32, 1);
  CHECK(cudaStreamSynchronize(stream));
}

// A graph in which every kernel waits for a copy.
void graph_of_copies(float* device, cudaStream_t stream) {
  cudaGraph_t made;
  cudaGraphExec_t ready;
  float* host = pinned_memory();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kRounds; ++i) {
    CHECK(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
    launch(device, stream);
  }
  CHECK(cudaStreamEndCapture(stream, &made));
  CHECK(cudaGraphInstantiate(&ready, made, 0));
  CHECK(cudaProfilerStart());
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(ready, stream));
  CHECK(cudaStreamSynchronize(stream));
}

// All on the legacy default stream, from and to page-locked memory, and all of it queued at once.
void legacy(float* device) {
  float* host = pinned_memory();
  CHECK(cudaProfilerStart());
  for (int i = 0; i < kRounds; ++i) {
    CHECK(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, 0));
    launch(device, 0);
    CHECK(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, 0));
  }
  CHECK(cudaDeviceSynchronize());
}

// Another thread allocates and frees all the time.
void beside_allocations(float* device, cudaStream_t stream) {
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      float* own = nullptr;
      CHECK(cudaMalloc(&own, 16 * kBytes));
      CHECK(cudaFree(own));
    }
  });
  CHECK(cudaProfilerStart());
  for (int i = 0; i < 10 * kRounds; ++i) launch(device, stream);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaProfilerStop());
  over = true;
  other.join();
}

bool run_more(const char* mode, float* device, cudaStream_t stream) {
  if (!strncmp(mode, "pool_", 5)) pool(stream, !strcmp(mode, "pool_max"));
  else if (!strcmp(mode, "register")) registrations(device, stream);
  else if (!strcmp(mode, "download")) downloads(device);
  else if (!strcmp(mode, "event_sync") || !strcmp(mode, "poll")) until_event(device, stream, *mode == 'p');
  else if (!strcmp(mode, "small")) small(device, stream);
  else if (!strcmp(mode, "graph_copy")) graph_of_copies(device, stream);
  else if (!strcmp(mode, "legacy")) legacy(device);
  else if (!strcmp(mode, "thread")) beside_allocations(device, stream);
  else return false;
  return true;
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
  else if (run_more(mode, device, stream)) {}
  else return fprintf(stderr, "no mode %s\n", mode), 2;
  CHECK(cudaProfilerStop());
  printf("%s done\n", mode);
  return count > 2 ? atoi(given[2]) : 0;
}
