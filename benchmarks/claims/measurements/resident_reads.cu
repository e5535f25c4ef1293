// resident_reads: how many warps must be resident to read memory at full speed, by what each of them keeps in flight.
//
// Shapes:       x (rows, 4096) row-major float; y (rows, 128): thread t of a row adds up its 8 pieces of 4 floats.
// Idea:         PATH=REGISTERS: a thread loads INFLIGHT pieces, then adds them, then loads the next. PATH=CP_ASYNC: it keeps
//               INFLIGHT pieces on their way to shared memory all the time, across rows, in slots that only it uses.
//               CTAS CTAs of 4 warps are resident per SM; dynamic shared memory keeps further ones out.
// Roofline:     DRAM, reading.
// Bubble:       data_wait, unless CTAS x INFLIGHT covers latency x bandwidth.
// Launch:       grid SMs x CTAS, block 128, dynamic shared memory as in the spec.
// Precondition: 16-byte aligned pointers.
// Parameters:   -DPATH=PATH_REGISTERS|PATH_CP_ASYNC -DINFLIGHT=1|2|4|8 -DCTAS=1|2|4|8
#include "cp_async.cuh"

using namespace ncubble;

constexpr int kThreads = 128, kPieces = 8, kRowPieces = kThreads * kPieces;

__device__ __forceinline__ float sum(float4 v) { return (v.x + v.y) + (v.z + v.w); }

extern "C" __global__ void __launch_bounds__(kThreads)
resident_reads(const float4* __restrict__ x, float* __restrict__ y, int rows) {
    extern __shared__ __align__(16) float4 slots[];
    const int thread = threadIdx.x;
#if PATH == PATH_REGISTERS
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const float4* from = x + static_cast<size_t>(row) * kRowPieces + thread;
        float total = 0;
#pragma unroll 1
        for (int i = 0; i < kPieces; i += INFLIGHT) {
            float4 held[INFLIGHT];
#pragma unroll
            for (int j = 0; j < INFLIGHT; ++j) held[j] = __ldcs(&from[(i + j) * kThreads]);
#pragma unroll
            for (int j = 0; j < INFLIGHT; ++j) total += sum(held[j]);
        }
        y[static_cast<size_t>(row) * kThreads + thread] = total;
    }
#else
    const int mine = rows > static_cast<int>(blockIdx.x) ? (rows - blockIdx.x - 1) / gridDim.x + 1 : 0;
    const int pieces = mine * kPieces;
    // One group per piece, empty past the last, so that counting groups counts pieces. A thread reads only its own slots:
    // its own wait is enough.
    auto issue = [&](int p) {
        if (p < pieces) {
            const size_t row = blockIdx.x + static_cast<size_t>(p / kPieces) * gridDim.x;
            cp_async<16>(&slots[p % INFLIGHT * kThreads + thread], &x[row * kRowPieces + p % kPieces * kThreads + thread]);
        }
        cp_async_commit();
    };
#pragma unroll
    for (int p = 0; p < INFLIGHT; ++p) issue(p);
    float total = 0;
    for (int p = 0; p < pieces; ++p) {
        cp_async_wait<INFLIGHT - 1>();
        total += sum(slots[p % INFLIGHT * kThreads + thread]);
        issue(p + INFLIGHT);
        if (p % kPieces == kPieces - 1) {
            y[(blockIdx.x + static_cast<size_t>(p / kPieces) * gridDim.x) * kThreads + thread] = total;
            total = 0;
        }
    }
#endif
}
