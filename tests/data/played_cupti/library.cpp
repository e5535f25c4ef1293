// Plays CUPTI below stream_injection.cpp, compiled into one program with it: a copy, a kernel and a call at each flush.
// Arguments: "fork" lets a child exit, "kill" ends without exit handlers after a flush, "occupied" has another client,
// "marks" has a range of NVTX.
#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

extern "C" int InitializeInjection(void);

static CUpti_BuffersCallbackRequestFunc request_;
static CUpti_BuffersCallbackCompleteFunc complete_;
static const char* mode_ = "";
static const uint64_t kZero = 1800000000000000000ull;

template <class A>
static size_t put(uint8_t* buffer, size_t at, A a) {
  memcpy(buffer + at, &a, sizeof a);
  return at + sizeof a;
}

extern "C" {
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  return strcmp(mode_, "occupied") ? CUPTI_SUCCESS : CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return kind == CUPTI_ACTIVITY_KIND_CUDA_EVENT ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) {
  request_ = r, complete_ = c;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushPeriod(uint32_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiGetVersion(uint32_t* version) { return *version = 130000, CUPTI_SUCCESS; }
CUptiResult cuptiGetResultString(CUptiResult, const char** text) { return *text = "PLAYED", CUPTI_SUCCESS; }
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t, const char** name) {
  return *name = "cuLaunchKernel", CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  return *dropped = 7, CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* next = buffer;
  if (*record) {
    const size_t size = (*record)->kind == CUPTI_ACTIVITY_KIND_MEMCPY ? sizeof(CUpti_ActivityMemcpy5)
                        : (*record)->kind == CUPTI_ACTIVITY_KIND_DRIVER ? sizeof(CUpti_ActivityAPI)
                        : (*record)->kind == CUPTI_ACTIVITY_KIND_MARKER ? sizeof(CUpti_ActivityMarker2)
                                                                         : sizeof(CUpti_ActivityKernel9);
    next = reinterpret_cast<uint8_t*>(*record) + size;
  }
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  uint8_t* buffer = nullptr;
  size_t size = 0, most = 0;
  request_(&buffer, &size, &most);
  CUpti_ActivityMemcpy5 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY, copy.copyKind = 1, copy.srcKind = 1, copy.dstKind = 3;
  copy.bytes = 1ull << 33, copy.start = kZero, copy.end = kZero + 10, copy.contextId = 1, copy.streamId = 7;
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_DRIVER, call.cbid = 307, call.start = kZero + 11, call.end = kZero + 15;
  call.threadId = 5, call.correlationId = 3, call.processId = getpid();
  CUpti_ActivityKernel9 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, kernel.name = "two\nlines", kernel.correlationId = 3;
  kernel.start = kZero + 20, kernel.end = kZero + 30, kernel.deviceId = 2, kernel.contextId = 1, kernel.streamId = 8;
  kernel.gridX = 70000, kernel.gridY = 3, kernel.gridZ = 2, kernel.blockX = 32, kernel.blockY = 4, kernel.blockZ = 1;
  kernel.dynamicSharedMemory = 4096;
  CUpti_ActivityMarker2 mark{};
  mark.kind = CUPTI_ACTIVITY_KIND_MARKER, mark.id = 6, mark.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  mark.objectId.pt.threadId = 5, mark.timestamp = kZero + 40, mark.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  mark.name = "step", mark.domain = "mine";
  CUpti_ActivityMarker2 closed = mark;
  closed.timestamp = kZero + 60, closed.flags = CUPTI_ACTIVITY_FLAG_MARKER_END, closed.name = closed.domain = nullptr;
  size_t at = put(buffer, 0, copy);
  at = put(buffer, at, call);
  at = put(buffer, at, kernel);
  if (!strcmp(mode_, "marks")) at = put(buffer, put(buffer, at, mark), closed);
  complete_(nullptr, 0, buffer, size, at);
  return CUPTI_SUCCESS;
}
}

int main(int count, char** given) {
  if (count > 1) mode_ = given[1];
  if (InitializeInjection() != 1 || InitializeInjection() != 1) return 2;
  if (!strcmp(mode_, "fork")) {
    if (fork() == 0) return 0;
    wait(nullptr);
  }
  if (!strcmp(mode_, "kill")) {
    cuptiActivityFlushAll(0);
    raise(SIGKILL);
  }
  return 0;
}
