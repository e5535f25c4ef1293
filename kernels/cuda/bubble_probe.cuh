// bubble_probe: what each warp of a kernel did when. A header of its own: copy it beside any CUDA source (nvcc or
// NVRTC, compute capability 7.0 and later). Without -DBUBBLE_PROBE its macros leave nothing behind: not an instruction.
//
//     __global__ void kernel(...) {
//         BUBBLE_WARP(probe, warp);                                   // this warp's recorder, and its role
//         for (int t = 0; t < tiles; ++t) {
//             BUBBLE(probe, wait_data, t, cp_async_wait<1>());        // one region: a tag, a tile, a statement
//             BUBBLE(probe, wait_sync, t, __syncthreads());
//             BUBBLE(probe, load, t + 2, issue(t + 2));
//             BUBBLE_SCOPE(probe, compute, t);                        // or: up to the end of this block
//             ...
//         }
//     }
//     int main() {
//         bubble::Trace trace;        // beside the kernel; records what is launched until it is destroyed
//         kernel<<<grid, block>>>(...);
//     }
//
// `ncubble trace -- ./program` runs it and reads what it wrote to $NCUBBLE_TRACE. Without that variable nothing is
// recorded.
//
// Bounds. A warp that starts on a recorded SM takes the next of `warps` slots; warps beyond are counted and not
// recorded. A slot holds `regions` regions; those beyond are counted and not written. A region is written by one lane
// when it ends, by one store of 16 bytes, whose address is that of the slot plus a count below `regions`.
// Time. A region begins and ends when the clock of its SM is read, in program order with memory operations and volatile
// instructions: at issue. What is asynchronous (copies, tensor products) goes on. The 32 low bits are kept: they wrap
// after some 2 s, and regions of a warp that lie further apart cannot be told from nearer ones.
// Functions. A probe is handed on as the last argument: f(x BUBBLE_PASS(probe)) calls f(int x BUBBLE_TAKE(probe)).
// Lanes. Lane 0 records for its warp. Where another thread works alone (elect.sync), let it record:
// BUBBLE_THREAD(probe, loader) in that thread.
#pragma once

// The tags and the roles. `wait…` is time in which a warp could do nothing; everything else is work. Own ones:
// #define BUBBLE_OWN_TAGS(X) X(dequantize) X(wait_token)   before this header is included; BUBBLE_OWN_ROLES alike.
#define BUBBLE_TAGS(X) \
    X(load)      /* starts copies into shared memory, or makes them */ \
    X(wait_data) /* for copies */                                      \
    X(wait_sync) /* for other warps, at a barrier */                   \
    X(wait_slot) /* for a slot that others still read */               \
    X(wait_mma)  /* for asynchronous tensor products */                \
    X(compute)                                                         \
    X(store)
#define BUBBLE_ROLES(X) \
    X(warp) /* all alike */ \
    X(loader) \
    X(computer) \
    X(storer)
#ifndef BUBBLE_OWN_TAGS
#define BUBBLE_OWN_TAGS(X)
#endif
#ifndef BUBBLE_OWN_ROLES
#define BUBBLE_OWN_ROLES(X)
#endif

#define BUBBLE_JOIN_(a, b) a##b
#define BUBBLE_JOIN(a, b) BUBBLE_JOIN_(a, b)

#ifndef BUBBLE_PROBE

#define BUBBLE_WARP(probe, role)
#define BUBBLE_THREAD(probe, role)
#define BUBBLE(probe, tag, index, ...) __VA_ARGS__
#define BUBBLE_SCOPE(probe, tag, index)
#define BUBBLE_TAKE(probe)
#define BUBBLE_PASS(probe)

#ifndef __CUDACC_RTC__
namespace bubble {
struct Trace {
    explicit Trace(unsigned = 0, unsigned = 0, unsigned = 0) {}
    ~Trace() {}  // not trivial: a Trace that nobody reads is no unused variable
};
}  // namespace bubble
#endif

#else

#define BUBBLE_WARP(probe, role) bubble::Probe probe(bubble::Role::role, bubble::lane() == 0)
#define BUBBLE_THREAD(probe, role) bubble::Probe probe(bubble::Role::role, true)
#define BUBBLE(probe, tag, index, ...)                                 \
    do {                                                               \
        const unsigned bubble_begin = bubble::now();                   \
        __VA_ARGS__;                                                   \
        (probe).keep(bubble_begin, bubble::now(), bubble::Tag::tag, static_cast<unsigned>(index)); \
    } while (0)
#define BUBBLE_SCOPE(probe, tag, index)                          \
    const bubble::Scope BUBBLE_JOIN(bubble_scope_, __LINE__)(probe, bubble::Tag::tag, static_cast<unsigned>(index))
#define BUBBLE_TAKE(probe) , bubble::Probe& probe
#define BUBBLE_PASS(probe) , probe

namespace bubble {

#define BUBBLE_NAME(name) name,
enum class Tag : unsigned { none, BUBBLE_TAGS(BUBBLE_NAME) BUBBLE_OWN_TAGS(BUBBLE_NAME) };
enum class Role : unsigned { none, BUBBLE_ROLES(BUBBLE_NAME) BUBBLE_OWN_ROLES(BUBBLE_NAME) };
#undef BUBBLE_NAME

constexpr unsigned kMaskWords = 8;  // 512 SMs

// What a warp tells of itself. An `end_ns` of 0: it did not come to its end, and its regions are those with a tag.
struct Warp {
    unsigned long long begin_ns, begin_clock, end_ns, end_clock;  // %globaltimer and the clock of the SM
    unsigned sm, cta, warp, role;
    unsigned attempted;  // regions, those beyond the slot included
    unsigned launch;     // %gridid
    unsigned spare[2];
};

// Set by the host. All zero, as when nobody does: nothing is written.
struct Config {
    uint4* regions;      // slots + 1 times `capacity`; the last slot is nobody's
    Warp* warps;         // `slots`
    unsigned* started;   // warps that asked for a slot
    unsigned slots, capacity;
    unsigned long long sms[kMaskWords];  // a bit for each SM that is recorded
};

#if defined(__CUDACC_RTC__) || defined(BUBBLE_PROBE_EXPORT)
extern "C" {
__constant__ Config bubble_probe_config;  // found by name in the module
}
#else
static __constant__ Config bubble_probe_config;
#endif

__device__ __forceinline__ unsigned lane() {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
__device__ __forceinline__ unsigned now() {
    unsigned clock;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
    return clock;
}
__device__ __forceinline__ void both_clocks(unsigned long long& clock, unsigned long long& ns) {
    asm volatile("mov.u64 %0, %%clock64;\n\tmov.u64 %1, %%globaltimer;" : "=l"(clock), "=l"(ns)::"memory");
}

class Probe {
  public:
    __device__ __forceinline__ Probe(Role role, bool records) : first_(nowhere()), count_(0x80000000u) {
        if (!records) return;
        const unsigned sm = where();
        const Config& config = bubble_probe_config;
        if (!(config.sms[sm / 64 % kMaskWords] >> sm % 64 & 1)) return;
        const unsigned slot = atomicAdd(config.started, 1u);
        if (slot >= config.slots) return;
        first_ = slot * config.capacity;
        count_ = 0;
        introduce(config.warps[slot], role, sm);
    }

    __device__ __forceinline__ ~Probe() {
        if (first_ >= nowhere()) return;
        Warp& warp = bubble_probe_config.warps[first_ / bubble_probe_config.capacity];
        warp.attempted = count_;
        both_clocks(warp.end_clock, warp.end_ns);
    }
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;

    // Those who do not record count as well, from beyond every capacity.
    __device__ __forceinline__ void keep(unsigned begin, unsigned end, Tag tag, unsigned index) {
        if (count_ < bubble_probe_config.capacity)
            bubble_probe_config.regions[first_ + count_] = make_uint4(begin, end, static_cast<unsigned>(tag), index);
        ++count_;
    }

  private:
    unsigned first_, count_;  // first region of the slot; regions so far

    __device__ __forceinline__ static unsigned nowhere() {
        return bubble_probe_config.slots * bubble_probe_config.capacity;
    }
    __device__ __forceinline__ static unsigned where() {
        unsigned sm;
        asm("mov.u32 %0, %%smid;" : "=r"(sm));
        return sm;
    }
    __device__ __forceinline__ static void introduce(Warp& warp, Role role, unsigned sm) {
        unsigned long long launch;
        asm("mov.u64 %0, %%gridid;" : "=l"(launch));
        warp.sm = sm;
        warp.cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        warp.warp = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
        warp.role = static_cast<unsigned>(role);
        warp.launch = static_cast<unsigned>(launch);
        both_clocks(warp.begin_clock, warp.begin_ns);
    }
};

class Scope {
  public:
    __device__ __forceinline__ Scope(Probe& probe, Tag tag, unsigned index)
        : probe_(probe), tag_(tag), index_(index), begin_(now()) {}
    __device__ __forceinline__ ~Scope() { probe_.keep(begin_, now(), tag_, index_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

  private:
    Probe& probe_;
    const Tag tag_;
    const unsigned index_, begin_;
};

}  // namespace bubble

#if !defined(__CUDACC_RTC__) && !defined(BUBBLE_PROBE_EXPORT)

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace bubble {

// Records the kernels of this source file that run on the current device until it is destroyed, and appends what they
// did to the file $NCUBBLE_TRACE. $NCUBBLE_TRACE_SMS, …_WARPS and …_REGIONS overrule the arguments. It never throws and
// never ends the program: what goes wrong is told on stderr.
class Trace {
  public:
    explicit Trace(unsigned sms = 1, unsigned warps = 2048, unsigned regions = 1024)
        : path_(std::getenv("NCUBBLE_TRACE")) {
        if (path_ == nullptr) return;
        sms = chosen("NCUBBLE_TRACE_SMS", sms);
        config_.slots = chosen("NCUBBLE_TRACE_WARPS", warps);
        config_.capacity = chosen("NCUBBLE_TRACE_REGIONS", regions);
        for (unsigned sm = 0; sm < sms && sm < 64 * kMaskWords; ++sm) config_.sms[sm / 64] |= 1ull << sm % 64;
        if (config_.slots == 0 || config_.capacity == 0 || config_.capacity > 1u << 30 || total() > 0xffffffffull) {
            std::fprintf(stderr, "bubble_probe: %u warps of %u regions are too many, or none\n", config_.slots,
                         config_.capacity);
        } else {
            on_ = good(allocate(), "allocate") && good(set(config_), "set");
        }
    }

    ~Trace() {
        if (on_ && good(cudaDeviceSynchronize(), "wait")) {
            good(set(Config{}), "reset");
            write();
        }
        cudaFree(config_.regions);
        cudaFree(config_.warps);
        cudaFree(config_.started);
    }
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;

  private:
    const char* path_;
    Config config_{};
    bool on_ = false;

    unsigned long long total() const { return (config_.slots + 1ull) * config_.capacity; }

    static unsigned chosen(const char* name, unsigned otherwise) {
        const char* text = std::getenv(name);
        return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
    }
    static bool good(cudaError_t status, const char* what) {
        if (status != cudaSuccess)
            std::fprintf(stderr, "bubble_probe: cannot %s: %s\n", what, cudaGetErrorString(status));
        return status == cudaSuccess;
    }
    static cudaError_t set(const Config& config) {
        const cudaError_t status = cudaMemcpyToSymbol(bubble_probe_config, &config, sizeof(Config));
        return status == cudaSuccess ? cudaDeviceSynchronize() : status;
    }
    static cudaError_t fetch(void* host, const void* device, size_t bytes) {
        return cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost);
    }
    cudaError_t allocate() {
        cudaError_t status = cudaMalloc(&config_.regions, total() * sizeof(uint4));
        if (status == cudaSuccess) status = cudaMalloc(&config_.warps, config_.slots * sizeof(Warp));
        if (status == cudaSuccess) status = cudaMalloc(&config_.started, sizeof(unsigned));
        if (status == cudaSuccess) status = cudaMemset(config_.regions, 0, total() * sizeof(uint4));
        if (status == cudaSuccess) status = cudaMemset(config_.warps, 0, config_.slots * sizeof(Warp));
        if (status == cudaSuccess) status = cudaMemset(config_.started, 0, sizeof(unsigned));
        return status;
    }

    // A line of JSON, padded to its length in the first 16 bytes; the warps; their regions.
    void write() const {
        unsigned started = 0;
        if (!good(fetch(&started, config_.started, sizeof(started)), "read")) return;
        const size_t used = started < config_.slots ? started : config_.slots;
        std::vector<Warp> warps(used);
        std::vector<uint4> regions(used * config_.capacity);
        if (used > 0 && !(good(fetch(warps.data(), config_.warps, used * sizeof(Warp)), "read") &&
                          good(fetch(regions.data(), config_.regions, regions.size() * sizeof(uint4)), "read")))
            return;
        std::FILE* file = std::fopen(path_, "ab");
        if (file == nullptr) {
            std::fprintf(stderr, "bubble_probe: cannot write %s\n", path_);
            return;
        }
        char text[4096];
        const int length = describe(text, sizeof(text), started, used);
        std::fprintf(file, "bubbles1%08d", length);
        const bool whole = std::fwrite(text, 1, length, file) == static_cast<size_t>(length) &&
                           std::fwrite(warps.data(), sizeof(Warp), used, file) == used &&
                           std::fwrite(regions.data(), sizeof(uint4), regions.size(), file) == regions.size();
        if (std::fclose(file) != 0 || !whole) std::fprintf(stderr, "bubble_probe: cannot write all of %s\n", path_);
    }

    int describe(char* text, size_t size, unsigned started, size_t used) const {
        int device = 0;
        cudaDeviceProp properties{};
        if (cudaGetDevice(&device) == cudaSuccess) cudaGetDeviceProperties(&properties, device);
#define BUBBLE_TEXT(name) ",\"" #name "\""
        const int length = std::snprintf(
            text, size,
            "{\"slots\":%u,\"regions\":%u,\"started\":%u,\"warps\":%u,\"sms\":%d,\"tags\":[\"\"%s],\"roles\":[\"\"%s],"
            "\"device\":\"%s\",\"ordinal\":%d}",
            config_.slots, config_.capacity, started, static_cast<unsigned>(used), properties.multiProcessorCount,
            "" BUBBLE_TAGS(BUBBLE_TEXT) BUBBLE_OWN_TAGS(BUBBLE_TEXT),
            "" BUBBLE_ROLES(BUBBLE_TEXT) BUBBLE_OWN_ROLES(BUBBLE_TEXT), properties.name, device);
#undef BUBBLE_TEXT
        return length < static_cast<int>(size) ? length : static_cast<int>(size) - 1;
    }
};

}  // namespace bubble

#endif
#endif
