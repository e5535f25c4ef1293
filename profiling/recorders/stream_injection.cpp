// Records the GPU activity of any program: the CUDA driver loads this library where CUDA_INJECTION64_PATH names it.
// Writes what profiling/recorders/raw.py describes: fixed records of 80 bytes per process, and the names they point to.
// Not cupti.h: with it come parameters of calls that an older cuda.h does not know.
#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

namespace {

enum Kind : uint32_t { KERNEL = 1, COPY, SET, DRIVER, RUNTIME, SYNC, STREAM, CONTEXT, GRAPH, EVENT, OVERHEAD, POOL, MARK };

struct Record {
  uint32_t kind, device, context, stream;
  uint64_t start, end, bytes, extra;
  uint32_t correlation, thread, name, flags, source, target, channel, graph;
};
static_assert(sizeof(Record) == 80, "the reader's records have 80 bytes");

constexpr size_t kBuffer = 8u << 20;
constexpr size_t kNameMost = 4096;
constexpr uint32_t kFlushMs = 500;

struct State {
  std::mutex lock;
  std::string folder;
  FILE* records = nullptr;
  FILE* names = nullptr;
  std::unordered_map<std::string, uint32_t> numbers;
  std::unordered_map<uint64_t, uint32_t> calls;
  uint64_t most = 0, kept = 0, over = 0, dropped = 0;
  pid_t pid = 0;
  std::string refused;
  bool closed = false;
};

// Never destroyed: CUPTI's thread may hand over a buffer while the process runs its destructors.
State& state() {
  static State* one = new State;
  return *one;
}

uint32_t number(const char* text) {
  State& s = state();
  std::string name(text ? text : "", text ? strnlen(text, kNameMost) : 0);
  for (char& c : name)
    if (c == '\n' || c == '\r') c = ' ';
  auto found = s.numbers.find(name);
  if (found != s.numbers.end()) return found->second;
  uint32_t next = static_cast<uint32_t>(s.numbers.size());
  fwrite(name.data(), 1, name.size(), s.names);
  fputc('\n', s.names);
  s.numbers.emplace(std::move(name), next);
  return next;
}

uint32_t call_name(CUpti_CallbackDomain domain, uint32_t cbid) {
  State& s = state();
  uint64_t key = (static_cast<uint64_t>(domain) << 32) | cbid;
  auto found = s.calls.find(key);
  if (found != s.calls.end()) return found->second;
  const char* name = nullptr;
  if (cuptiGetCallbackName(domain, cbid, &name) != CUPTI_SUCCESS || !name) name = "call";
  return s.calls[key] = number(name);
}

void add(const Record& record) {
  State& s = state();
  if (s.kept >= s.most) {
    s.over++;
    return;
  }
  s.kept++;
  fwrite(&record, sizeof record, 1, s.records);
}

template <class A>
Record work(uint32_t kind, const A* a) {
  Record r{};
  r.kind = kind, r.device = a->deviceId, r.context = a->contextId, r.stream = a->streamId;
  r.start = a->start, r.end = a->end, r.correlation = a->correlationId;
  return r;
}

void take_work(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      auto a = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      Record r = work(KERNEL, a);
      r.name = number(a->name), r.extra = a->graphNodeId, r.graph = a->graphId, r.channel = a->channelType;
      r.flags = a->blockX | a->blockY << 11 | a->blockZ << 22, r.bytes = a->dynamicSharedMemory;
      r.source = a->gridX, r.target = a->gridY | a->gridZ << 16;
      return add(r);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      auto a = reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
      Record r = work(COPY, a);
      r.bytes = a->bytes, r.flags = a->copyKind, r.source = a->srcKind, r.target = a->dstKind;
      r.graph = a->graphId, r.channel = a->channelType;
      return add(r);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      auto a = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4*>(record);
      Record r = work(COPY, a);
      r.bytes = a->bytes, r.flags = a->copyKind, r.source = a->srcKind, r.target = a->dstKind;
      r.extra = (static_cast<uint64_t>(a->srcDeviceId) << 32) | a->dstDeviceId;
      r.graph = a->graphId, r.channel = a->channelType;
      return add(r);
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      auto a = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      Record r = work(SET, a);
      r.bytes = a->bytes, r.source = a->memoryKind, r.graph = a->graphId, r.channel = a->channelType;
      return add(r);
    }
    default:
      return;
  }
}

void take_call(const CUpti_Activity* record, uint32_t kind, CUpti_CallbackDomain domain) {
  auto a = reinterpret_cast<const CUpti_ActivityAPI*>(record);
  Record r{};
  r.kind = kind, r.start = a->start, r.end = a->end, r.extra = a->processId, r.correlation = a->correlationId;
  r.thread = a->threadId, r.name = call_name(domain, a->cbid), r.flags = a->returnValue;
  add(r);
}

void take_order(const CUpti_Activity* record) {
  Record r{};
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
      // Fields up to cudaEventId are in every version; what follows came with CUPTI 12.9.
      auto a = reinterpret_cast<const CUpti_ActivitySynchronization*>(record);
      r.kind = SYNC, r.context = a->contextId, r.stream = a->streamId, r.start = a->start, r.end = a->end;
      r.correlation = a->correlationId, r.flags = a->type, r.source = a->cudaEventId;
      return add(r);
    }
    case CUPTI_ACTIVITY_KIND_STREAM: {
      auto a = reinterpret_cast<const CUpti_ActivityStream*>(record);
      r.kind = STREAM, r.context = a->contextId, r.stream = a->streamId;
      r.correlation = a->correlationId, r.flags = a->flag, r.extra = static_cast<uint32_t>(a->priority);
      return add(r);
    }
    case CUPTI_ACTIVITY_KIND_CONTEXT: {
      auto a = reinterpret_cast<const CUpti_ActivityContext*>(record);
      r.kind = CONTEXT, r.device = a->deviceId, r.context = a->contextId, r.flags = a->nullStreamId;
      return add(r);
    }
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: {
      auto a = reinterpret_cast<const CUpti_ActivityCudaEvent*>(record);
      r.kind = EVENT, r.context = a->contextId, r.stream = a->streamId;
      r.correlation = a->correlationId, r.source = a->eventId;
      return add(r);
    }
    default:
      return;
  }
}

// The start or the end of an NVTX range: both have its number, the start also its name.
void take_mark(const CUpti_Activity* record) {
  auto a = reinterpret_cast<const CUpti_ActivityMarker2*>(record);
  Record r{};
  r.kind = MARK, r.start = r.end = a->timestamp, r.extra = a->id, r.flags = a->flags;
  if (a->objectKind == CUPTI_ACTIVITY_OBJECT_THREAD) r.thread = a->objectId.pt.threadId;
  std::string name(a->name ? a->name : "");
  if (a->name && a->domain) name = std::string(a->domain) + "@" + name;
  r.name = number(name.c_str());
  add(r);
}

void take(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_MARKER:
      return take_mark(record);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return take_call(record, DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return take_call(record, RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
    case CUPTI_ACTIVITY_KIND_STREAM:
    case CUPTI_ACTIVITY_KIND_CONTEXT:
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return take_order(record);
    default:
      return take_work(record);
  }
}

void CUPTIAPI requested(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBuffer));
  *size = *buffer ? kBuffer : 0;
  *most = 0;
}

void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  State& s = state();
  std::lock_guard<std::mutex> hold(s.lock);
  if (!s.closed && getpid() == s.pid) {
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) take(record);
    size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) s.dropped += dropped;
    // Names first: a kill between the two must not leave records without them.
    fflush(s.names);
    fflush(s.records);
  }
  free(buffer);
}

void finish() {
  State& s = state();
  if (getpid() != s.pid) return;
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::lock_guard<std::mutex> hold(s.lock);
  if (s.closed) return;
  s.closed = true;
  fclose(s.names);
  fclose(s.records);
  uint32_t version = 0;
  cuptiGetVersion(&version);
  FILE* end = fopen((s.folder + "/end-" + std::to_string(s.pid) + ".json").c_str(), "w");
  if (!end) return;
  fprintf(end,
          "{\"pid\": %d, \"kept\": %llu, \"over\": %llu, \"dropped\": %llu, \"recorder\": \"injection\", "
          "\"version\": %u, \"refused\": [%s]}",
          static_cast<int>(s.pid), static_cast<unsigned long long>(s.kept), static_cast<unsigned long long>(s.over),
          static_cast<unsigned long long>(s.dropped), version, s.refused.c_str());
  fclose(end);
}

bool refuse(const std::string& why) {
  FILE* file = fopen((state().folder + "/refused.txt").c_str(), "w");
  if (file) {
    fputs(why.c_str(), file);
    fclose(file);
  }
  return false;
}

bool open_files() {
  State& s = state();
  s.pid = getpid();
  const std::string tail = "-" + std::to_string(s.pid);
  s.records = fopen((s.folder + "/records" + tail + ".bin").c_str(), "wb");
  s.names = fopen((s.folder + "/names" + tail + ".txt").c_str(), "w");
  if (!s.records || !s.names) return refuse("the folder for records cannot be written");
  const uint32_t head[2] = {sizeof(Record), static_cast<uint32_t>(s.pid)};
  fwrite("NCBSTRM1", 1, 8, s.records);
  fwrite(head, sizeof head, 1, s.records);
  fflush(s.records);
  return true;
}

std::string reason(CUptiResult status) {
  const char* text = nullptr;
  return cuptiGetResultString(status, &text) == CUPTI_SUCCESS && text ? text : std::to_string(status);
}

bool enable() {
  struct {
    CUpti_ActivityKind kind;
    const char* name;
    bool needed;
  } const kinds[] = {
      {CUPTI_ACTIVITY_KIND_CONTEXT, "CONTEXT", false},
      {CUPTI_ACTIVITY_KIND_STREAM, "STREAM", false},
      {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "CONCURRENT_KERNEL", true},
      {CUPTI_ACTIVITY_KIND_MEMCPY, "MEMCPY", true},
      {CUPTI_ACTIVITY_KIND_MEMCPY2, "MEMCPY2", false},
      {CUPTI_ACTIVITY_KIND_MEMSET, "MEMSET", false},
      {CUPTI_ACTIVITY_KIND_DRIVER, "DRIVER", true},
      {CUPTI_ACTIVITY_KIND_RUNTIME, "RUNTIME", true},
      {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "SYNCHRONIZATION", false},
      {CUPTI_ACTIVITY_KIND_CUDA_EVENT, "CUDA_EVENT", false},
      {CUPTI_ACTIVITY_KIND_MARKER, "MARKER", false},
  };
  State& s = state();
  for (const auto& one : kinds) {
    const CUptiResult status = cuptiActivityEnable(one.kind);
    if (status == CUPTI_SUCCESS) continue;
    if (one.needed) return refuse(std::string("CUPTI does not record ") + one.name + ": " + reason(status));
    s.refused += std::string(s.refused.empty() ? "\"" : ", \"") + one.name + "\"";
  }
  return true;
}

void CUPTIAPI hear_nothing(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

}  // namespace

// Called by the driver when the program first uses CUDA; a return of 1 says that all went well.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  static std::atomic<bool> once{false};
  if (once.exchange(true)) return 1;
  const char* folder = getenv("NCUBBLE_STREAMS_FOLDER");
  const char* most = getenv("NCUBBLE_STREAMS_MOST");
  if (!folder || !most) return 1;
  State& s = state();
  s.folder = folder;
  s.most = strtoull(most, nullptr, 10);
  CUpti_SubscriberHandle subscriber;
  const CUptiResult status = cuptiSubscribe(&subscriber, hear_nothing, nullptr);
  if (status != CUPTI_SUCCESS) {
    const bool taken = status == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    refuse((taken ? "another client of CUPTI is active (" : "CUPTI cannot be used (") + reason(status) + ")");
    return 1;
  }
  if (!open_files()) return 1;
  if (cuptiActivityRegisterCallbacks(requested, completed) != CUPTI_SUCCESS) return 1;
  if (!enable()) return 1;
  cuptiActivityFlushPeriod(kFlushMs);
  atexit(finish);
  return 1;
}
