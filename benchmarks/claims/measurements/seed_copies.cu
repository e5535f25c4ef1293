// seed_copies: the pipelines of document 001 in the order in which it writes them, made to compile and nothing else.
//
// Shapes:       input (n), output (n), n a multiple of 256: output must become 2 x input. Shared memory is poisoned (NaN).
// Idea:         cuda::pipeline gets its state and memcpy_async its group, without which they do not compile; the order of
//               steps, the buffers and the missing barriers are the document's.
// Launch:       256 threads; single_buffer and double_buffer one CTA, coop_copy any grid (each CTA processes all of n).
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

#include <cuda/pipeline>

namespace cg = cooperative_groups;

constexpr int kChunk = 256;
#define NOT_A_NUMBER __int_as_float(0x7FFFFFFF)

#pragma nv_diag_suppress static_var_with_dynamic_init

// previous: what "process previous data while the copy is happening" gives; fresh: what processing after the wait gives.
extern "C" __global__ void single_buffer(const float* input, float* previous, float* fresh, int n) {
    __shared__ float buffer[kChunk];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    buffer[threadIdx.x] = NOT_A_NUMBER;
    __syncthreads();
    for (int i = 0; i < n; i += kChunk) {
        pipe.producer_acquire();
        cuda::memcpy_async(block, buffer, input + i, kChunk * sizeof(float), pipe);
        pipe.producer_commit();
        if (i > 0) {
            // The copy lands while the warps read: give it the time that processing takes.
            for (int spin = 0; spin < 64; ++spin) __nanosleep(20);
            previous[i - kChunk + threadIdx.x] = 2.0f * reinterpret_cast<volatile float*>(buffer)[threadIdx.x];
        }
        pipe.consumer_wait();
        fresh[i + threadIdx.x] = 2.0f * buffer[threadIdx.x];
        pipe.consumer_release();
    }
}

extern "C" __global__ void double_buffer(const float* input, float* output, int n) {
    __shared__ float buffer_a[kChunk], buffer_b[kChunk];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    buffer_a[threadIdx.x] = buffer_b[threadIdx.x] = NOT_A_NUMBER;
    __syncthreads();
    float *current = buffer_a, *next = buffer_b;
    pipe.producer_acquire();
    cuda::memcpy_async(block, current, input, kChunk * sizeof(float), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    pipe.consumer_release();
    for (int i = kChunk; i < n; i += kChunk) {
        float* swapped = current;
        current = next;
        next = swapped;
        pipe.producer_acquire();
        cuda::memcpy_async(block, next, input + i, kChunk * sizeof(float), pipe);
        pipe.producer_commit();
        output[i - kChunk + threadIdx.x] = 2.0f * reinterpret_cast<volatile float*>(current)[threadIdx.x];
        pipe.consumer_wait();
        pipe.consumer_release();
    }
    output[(n - 1) / kChunk * kChunk + threadIdx.x] = 2.0f * current[threadIdx.x];
}

extern "C" __global__ void coop_copy(const float* input, float* output, int n) {
    __shared__ float shared[kChunk];
    auto block = cg::this_thread_block();
    for (int i = 0; i < n; i += blockDim.x) {
        cg::memcpy_async(block, shared, input + i, sizeof(float) * min(static_cast<int>(blockDim.x), n - i));
        cg::wait(block);
        const int index = i + threadIdx.x;
        if (index < n) {
            shared[threadIdx.x] *= 2.0f;
            output[index] = shared[threadIdx.x];
        }
    }
}

// manual_async_copy of the document, whole: 512 threads, two "buffers" of 256.
extern "C" __global__ void manual_copy(const float* input, float* output, int n) {
    __shared__ float sdata[512];
    const int tid = threadIdx.x, bid = blockIdx.x;
    if (tid < 256) sdata[tid] = input[bid * 512 + tid];
    if (tid >= 256 && tid < 512) sdata[tid] = input[bid * 512 + 256 + (tid - 256)];
    __syncthreads();
    const float result = sdata[tid] * 2.0f;
    __syncthreads();
    if (tid < 256) sdata[tid + 256] = input[bid * 512 + 256 + tid];
    if (tid >= 256) sdata[tid - 256] = input[bid * 512 + 512 + (tid - 256)];
    output[bid * 512 + tid] = result;
    __syncthreads();
}
