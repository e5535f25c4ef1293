// bubble_probe: what each warp of a kernel did when. A header of its own: copy it beside any CUDA source (nvcc or
// NVRTC, compute capability 7.0 and later). Without -DBUBBLE_PROBE its macros leave nothing behind: not an instruction.
//
//     __global__ void kernel(...) {
//         BUBBLE_WARP(probe, warp);                                   // this warp's recorder, and its role
//         for (int t = 0; t < tiles; ++t) {
//             BUBBLE_STEP(probe, wait_data, t, cp_async_wait<1>());   // from here to the next step: tag, tile, statement
//             BUBBLE_STEP(probe, wait_sync, t, __syncthreads());
//             BUBBLE_STEP(probe, load, t + 2, issue(t + 2));
//             BUBBLE_STEP(probe, compute, t, multiply(t));
//         }
//         BUBBLE(probe, store, tiles, store());                       // a region of its own: it ends with the statement
//     }
//     int main() {
//         bubble::Trace trace;        // beside the kernel; records what is launched until it is destroyed
//         kernel<<<grid, block>>>(...);
//     }
//
// `ncubble trace -- ./program` runs it and reads what it wrote to $NCUBBLE_TRACE. Without that variable nothing is
// recorded.
//
// Waits. A step named wait_sync or wait_slot is held to the end of its barrier (see `settle`). Where the statement asks
// until it is answered (mbarrier.try_wait, a flag in memory), BUBBLE_POLL is the same and cheaper.
// Marks. A step is one mark: it ends what went on and begins what follows. A region (BUBBLE, or BUBBLE_SCOPE to the end
// of a block) is two: at its end what went on before goes on. Regions may lie in each other; time is the innermost's.
// Bounds. A warp that starts on a recorded SM takes the next of `warps` slots, or that of its number in the grid where
// the host says so; warps beyond are counted and not recorded. A slot holds `marks` marks of 8 bytes, written by one
// lane. The last is overwritten by all that do not fit: it tells from when on nothing is known of the warp. The place of
// a mark never passes the slot's last, by min().
// Time. A mark reads the clock of its SM in program order with volatile instructions: copies, barriers, waits. Other
// instructions may move over it, as the compiler likes. What is asynchronous (copies, tensor products) goes on. The 32
// low bits are kept: marks of a warp that lie further apart than some 2 s cannot be told from nearer ones.
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
    X(math) \
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
#define BUBBLE_STEP(probe, tag, index, ...) __VA_ARGS__
#define BUBBLE_POLL(probe, tag, index, ...) __VA_ARGS__
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
#define BUBBLE_STEP(probe, tag, index, ...)                                             \
    do {                                                                                \
        (probe).mark<bubble::Kind::step, bubble::Tag::tag>(static_cast<unsigned>(index)); \
        __VA_ARGS__;                                                                    \
        bubble::settle<bubble::Tag::tag>();                                             \
    } while (0)
#define BUBBLE_POLL(probe, tag, index, ...)                                             \
    do {                                                                                \
        (probe).mark<bubble::Kind::step, bubble::Tag::tag>(static_cast<unsigned>(index)); \
        __VA_ARGS__;                                                                    \
    } while (0)
#define BUBBLE(probe, tag, index, ...)                                                   \
    do {                                                                                 \
        (probe).mark<bubble::Kind::begin, bubble::Tag::tag>(static_cast<unsigned>(index)); \
        __VA_ARGS__;                                                                     \
        bubble::settle<bubble::Tag::tag>();                                              \
        (probe).mark<bubble::Kind::end, bubble::Tag::none>(0);                           \
    } while (0)
#define BUBBLE_SCOPE(probe, tag, index) \
    const bubble::Scope<bubble::Tag::tag> BUBBLE_JOIN(bubble_scope_, __LINE__)(probe, static_cast<unsigned>(index))
#define BUBBLE_TAKE(probe) , bubble::Probe& probe
#define BUBBLE_PASS(probe) , probe

namespace bubble {

#define BUBBLE_NAME(name) name,
enum class Tag : unsigned { none, BUBBLE_TAGS(BUBBLE_NAME) BUBBLE_OWN_TAGS(BUBBLE_NAME) count };
enum class Role : unsigned { none, BUBBLE_ROLES(BUBBLE_NAME) BUBBLE_OWN_ROLES(BUBBLE_NAME) };
#undef BUBBLE_NAME
enum class Kind : unsigned { none, step, begin, end };
static_assert(static_cast<unsigned>(Tag::count) <= 64, "a tag is 6 bits of a mark");

constexpr unsigned kMaskWords = 8;  // 512 SMs

struct Mark {
    unsigned clock, word;  // the word: tag, from bit 6 on the kind (never 0), from bit 8 on the index
};

// What a warp tells of itself. An `end_ns` of 0: it did not come to its end, and its marks are those with a kind.
struct Warp {
    unsigned long long begin_ns, begin_clock, end_ns, end_clock;  // %globaltimer and the clock of the SM
    unsigned sm, cta, warp, role;
    unsigned marks;   // all but the slot's last, which stands for what did not fit
    unsigned launch;  // %gridid
    unsigned spare[2];
};

// Set by the host. All zero, as when nobody does: nothing is written.
struct Config {
    Mark* marks;         // `slots` times `capacity`, all within 4 GB from a multiple of 4 GB
    Warp* warps;         // `slots`
    unsigned* started;   // warps that asked for a slot
    unsigned slots, capacity;
    unsigned numbered, spare;  // whether a warp's slot is its number in the grid: one launch, each warp with one probe
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
__device__ __forceinline__ void both_clocks(unsigned long long& clock, unsigned long long& ns) {
    asm volatile("mov.u64 %0, %%clock64;\n\tmov.u64 %1, %%globaltimer;" : "=l"(clock), "=l"(ns)::"memory");
}

// A clock that is read right behind a barrier is read before the barrier holds the warp: BAR.SYNC is deferred. A warp
// that meets itself is held with it; in SASS this is a NOP.
template <Tag kTag>
__device__ __forceinline__ void settle() {
    if (kTag == Tag::wait_sync || kTag == Tag::wait_slot) __syncwarp(__activemask());
}

class Probe {
  public:
    __device__ __forceinline__ Probe(Role role, bool records) : low_(0), last_(0), high_(0) {
        if (!records) return;
        const unsigned sm = where();
        const Config& config = bubble_probe_config;
        if (!(config.sms[sm / 64 % kMaskWords] >> sm % 64 & 1)) return;
        const unsigned slot = config.numbered ? numbered(config.started) : atomicAdd(config.started, 1u);
        if (slot >= config.slots) return;
        Mark* const first = config.marks + static_cast<unsigned long long>(slot) * config.capacity;
        high_ = static_cast<unsigned>(reinterpret_cast<unsigned long long>(first) >> 32);
        low_ = static_cast<unsigned>(reinterpret_cast<unsigned long long>(first));
        last_ = low_ + (config.capacity - 1) * static_cast<unsigned>(sizeof(Mark));
        introduce(config.warps[slot], role, sm);
    }

    __device__ __forceinline__ ~Probe() {
        if (high_ == 0) return;
        const Config& config = bubble_probe_config;
        const unsigned slot = (last_ - static_cast<unsigned>(reinterpret_cast<unsigned long long>(config.marks))) /
                              static_cast<unsigned>(sizeof(Mark)) / config.capacity;
        Warp& warp = config.warps[slot];
        warp.marks = config.capacity - 1 - (last_ - low_) / static_cast<unsigned>(sizeof(Mark));
        both_clocks(warp.end_clock, warp.end_ns);
    }
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;

    // Four instructions, three of them switched off in threads that do not record.
    template <Kind kKind, Tag kTag>
    __device__ __forceinline__ void mark(unsigned index) {
        const unsigned word = index << 8 | static_cast<unsigned>(kKind) << 6 | static_cast<unsigned>(kTag);
        asm volatile(
            "{\n\t"
            ".reg .pred on;\n\t"
            ".reg .b32 clock;\n\t"
            ".reg .b64 place;\n\t"
            "setp.ne.u32 on, %1, 0;\n\t"
            "mov.b64 place, {%0, %1};\n\t"
            "mov.u32 clock, %%clock;\n\t"
            "@on st.global.v2.b32 [place], {clock, %2};\n\t"
            "}" ::"r"(low_), "r"(high_), "r"(word));
        low_ = min(low_ + static_cast<unsigned>(sizeof(Mark)), last_);
    }

  private:
    unsigned low_, last_, high_;  // where the next mark goes, 32 bits each; `high_` of 0: nowhere

    __device__ __forceinline__ static unsigned where() {
        unsigned sm;
        asm("mov.u32 %0, %%smid;" : "=r"(sm));
        return sm;
    }
    __device__ __forceinline__ static unsigned cta() {
        return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    __device__ __forceinline__ static unsigned warp() {
        return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
    }
    // Counts the warp without waiting for the count: an answer from L2 would hold up every CTA.
    __device__ __forceinline__ static unsigned numbered(unsigned* started) {
        asm volatile("red.global.add.u32 [%0], 1;" ::"l"(started));
        return cta() * ((blockDim.x * blockDim.y * blockDim.z + 31) / 32) + warp();
    }
    __device__ __forceinline__ static void introduce(Warp& warp, Role role, unsigned sm) {
        unsigned long long launch;
        asm("mov.u64 %0, %%gridid;" : "=l"(launch));
        warp.sm = sm;
        warp.cta = cta();
        warp.warp = Probe::warp();
        warp.role = static_cast<unsigned>(role);
        warp.launch = static_cast<unsigned>(launch);
        both_clocks(warp.begin_clock, warp.begin_ns);
    }
};

template <Tag kTag>
class Scope {
  public:
    __device__ __forceinline__ Scope(Probe& probe, unsigned index) : probe_(probe) {
        probe_.mark<Kind::begin, kTag>(index);
    }
    __device__ __forceinline__ ~Scope() {
        settle<kTag>();
        probe_.mark<Kind::end, Tag::none>(0);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

  private:
    Probe& probe_;
};

}  // namespace bubble

#if !defined(__CUDACC_RTC__) && !defined(BUBBLE_PROBE_EXPORT)

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>
#ifdef __unix__
#include <sys/file.h>
#endif

namespace bubble {

// Records the kernels of this source file that run on the current device until it is destroyed, and appends what they
// did to the file $NCUBBLE_TRACE. $NCUBBLE_TRACE_SMS, …_WARPS and …_MARKS overrule the arguments. It never throws and
// never ends the program: what goes wrong is told on stderr.
class Trace {
  public:
    explicit Trace(unsigned sms = 1, unsigned warps = 2048, unsigned marks = 2048)
        : path_(std::getenv("NCUBBLE_TRACE")) {
        if (path_ == nullptr) return;
        sms = chosen("NCUBBLE_TRACE_SMS", sms);
        config_.slots = chosen("NCUBBLE_TRACE_WARPS", warps);
        config_.capacity = chosen("NCUBBLE_TRACE_MARKS", marks) + 1;
        for (unsigned sm = 0; sm < sms && sm < 64 * kMaskWords; ++sm) config_.sms[sm / 64] |= 1ull << sm % 64;
        if (config_.slots == 0 || config_.capacity < 2 || total() > kMostMarks) {
            std::fprintf(stderr, "bubble_probe: %u warps of %u marks are too many, or none\n", config_.slots,
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
        cudaFree(config_.marks);
        cudaFree(config_.warps);
        cudaFree(config_.started);
    }
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;

  private:
    const char* path_;
    Config config_{};
    bool on_ = false;

    static constexpr unsigned long long kMostMarks = 1ull << 27;  // 1 GB
    unsigned long long total() const { return 1ull * config_.slots * config_.capacity; }

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
        cudaError_t status = allocate_marks();
        if (status == cudaSuccess) status = cudaMalloc(&config_.warps, config_.slots * sizeof(Warp));
        if (status == cudaSuccess) status = cudaMalloc(&config_.started, sizeof(unsigned));
        if (status == cudaSuccess) status = cudaMemset(config_.marks, 0, total() * sizeof(Mark));
        if (status == cudaSuccess) status = cudaMemset(config_.warps, 0, config_.slots * sizeof(Warp));
        if (status == cudaSuccess) status = cudaMemset(config_.started, 0, sizeof(unsigned));
        return status;
    }

    // All within 4 GB from a multiple of 4 GB: at most one of two buffers of up to 1 GB can lie across one.
    cudaError_t allocate_marks() {
        const size_t bytes = total() * sizeof(Mark);
        Mark* other = nullptr;
        cudaError_t status = cudaMalloc(&config_.marks, bytes);
        if (status == cudaSuccess && across(config_.marks, bytes)) {
            status = cudaMalloc(&other, bytes);
            cudaFree(config_.marks);
            config_.marks = other;
            if (status == cudaSuccess && across(other, bytes)) status = cudaErrorMemoryAllocation;
        }
        return status;
    }
    static bool across(const Mark* marks, size_t bytes) {
        const unsigned long long first = reinterpret_cast<unsigned long long>(marks);
        return first >> 32 != (first + bytes - 1) >> 32;
    }

    // A line of JSON, its length in the first 16 bytes; the warps; their marks.
    void write() const {
        unsigned started = 0;
        if (!good(fetch(&started, config_.started, sizeof(started)), "read")) return;
        const size_t used = started < config_.slots ? started : config_.slots;
        std::vector<Warp> warps(used);
        std::vector<Mark> marks(used * config_.capacity);
        if (used > 0 && !(good(fetch(warps.data(), config_.warps, used * sizeof(Warp)), "read") &&
                          good(fetch(marks.data(), config_.marks, marks.size() * sizeof(Mark)), "read")))
            return;
        std::FILE* file = std::fopen(path_, "ab");
        if (file == nullptr) {
            std::fprintf(stderr, "bubble_probe: cannot write %s\n", path_);
            return;
        }
#ifdef __unix__
        flock(fileno(file), LOCK_EX);  // until it is closed: processes of one program may end at once
#endif
        char text[4096];
        const int length = describe(text, sizeof(text), started, used);
        std::fprintf(file, "bubbles2%08d", length);
        const bool whole = std::fwrite(text, 1, length, file) == static_cast<size_t>(length) &&
                           std::fwrite(warps.data(), sizeof(Warp), used, file) == used &&
                           std::fwrite(marks.data(), sizeof(Mark), marks.size(), file) == marks.size();
        if (std::fclose(file) != 0 || !whole) std::fprintf(stderr, "bubble_probe: cannot write all of %s\n", path_);
    }

    int describe(char* text, size_t size, unsigned started, size_t used) const {
        int device = 0;
        cudaDeviceProp properties{};
        if (cudaGetDevice(&device) == cudaSuccess) cudaGetDeviceProperties(&properties, device);
#define BUBBLE_TEXT(name) ",\"" #name "\""
        const int length = std::snprintf(
            text, size,
            "{\"slots\":%u,\"marks\":%u,\"started\":%u,\"warps\":%u,\"sms\":%d,\"tags\":[\"\"%s],\"roles\":[\"\"%s],"
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
