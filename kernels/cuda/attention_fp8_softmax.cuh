// Online softmax of attention_fp8, in steps of 32 keys: a step of P is one A operand of P V. The caller lines the steps
// up with its own work on O without a branch between, so that the assembler issues FMA and ALU beside the exponentials.
//
// A: the AttentionFp8 it works for. Fragments are those of attention_softmax.cuh.
#pragma once

#include "attention_fp8_values.cuh"
#include "attention_softmax.cuh"

namespace ncubble {

template <class A>
struct AttentionFp8Softmax {
    // Of a thread's two rows. The maximum is the whole row's; the sum is of this thread's columns until `inverse_sums`.
    float max[2], sum[2];
    float correction[2];  // what was accumulated before the last tile must be multiplied by it
    float offset[2];      // P = exp2(score * scale - offset)
    float partial[2][2];  // two chains of additions per row

    __device__ __forceinline__ void reset() {
        max[0] = max[1] = kMasked;
        sum[0] = sum[1] = 0.0f;
    }

    // Takes a tile's scores into the maxima.
    __device__ __forceinline__ void find_max(const float (&scores)[A::kBlocks][4], float scale) {
        float found[2];
        integer_max(scores, found);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            correction[row] = exp2_fast((max[row] - found[row]) * scale);
            max[row] = found[row];
            offset[row] = fmaf(found[row], scale, -static_cast<float>(A::kBias));
            partial[row][0] = partial[row][1] = 0.0f;
        }
    }

    // Scores of step `step` become P, 2^kBias times as large; kPolynomials of every 16 are made in the FMA pipe.
    __device__ __forceinline__ void exponentiate(float (&scores)[A::kBlocks][4], int step, float scale) const {
#pragma unroll
        for (int j = 4 * step; j < 4 * step + 4; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float power = fmaf(scores[j][i], scale, -offset[i / 2]);
                if ((4 * j + i) * A::kPolynomials % 16 < A::kPolynomials) {
                    scores[j][i] = exp2_polynomial(power);
                } else {
                    scores[j][i] = exp2_fast(power);
                }
            }
    }

    __device__ __forceinline__ void add_row_sums(const float (&p)[A::kBlocks][4], int step) {
#pragma unroll
        for (int j = 4 * step; j < 4 * step + 4; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) partial[i / 2][j % 2] += p[j][i];
    }

    // When all steps of a tile are added.
    __device__ __forceinline__ void finish_row_sums() {
#pragma unroll
        for (int row = 0; row < 2; ++row) sum[row] = fmaf(sum[row], correction[row], partial[row][0] + partial[row][1]);
    }

    // 1 / sum of the whole rows.
    __device__ __forceinline__ void inverse_sums(float (&inverse)[2]) const {
#pragma unroll
        for (int row = 0; row < 2; ++row)
            inverse[row] = 1.0f / combine_quad(sum[row], [](float a, float b) { return a + b; });
    }

private:
    // Three integers are compared by one instruction, of floats two. As integers, floats that are not negative keep
    // their order, and any of them is above every negative one: a result that is not negative is exactly the largest
    // float. Negative floats are in reverse order: a row that has no others finds its largest as the least integer.
    __device__ __forceinline__ void integer_max(const float (&scores)[A::kBlocks][4], float (&found)[2]) const {
        int largest[2];
        across(scores, largest, [](int a, int b, int c) { return __vimax3_s32(a, b, c); });
        if (__any_sync(~0u, (largest[0] | largest[1]) < 0)) {
            int least[2];
            across(scores, least, [](int a, int b, int c) { return __vimin3_s32(a, b, c); });
#pragma unroll
            for (int row = 0; row < 2; ++row) largest[row] = largest[row] < 0 ? least[row] : largest[row];
        }
#pragma unroll
        for (int row = 0; row < 2; ++row) found[row] = __int_as_float(largest[row]);
    }

    template <typename Choose>
    __device__ __forceinline__ void across(const float (&scores)[A::kBlocks][4], int (&chosen)[2],
                                           Choose choose) const {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            int even = __float_as_int(max[row]), odd = even;
#pragma unroll
            for (int j = 0; j < A::kBlocks; j += 2) {
                const float *left = &scores[j][2 * row], *right = &scores[j + 1][2 * row];
                even = choose(even, __float_as_int(left[0]), __float_as_int(left[1]));
                odd = choose(odd, __float_as_int(right[0]), __float_as_int(right[1]));
            }
            chosen[row] = choose(even, odd, odd);
        }
#pragma unroll
        for (int row = 0; row < 2; ++row)
            chosen[row] = combine_quad(chosen[row], [choose](int a, int b) { return choose(a, b, b); });
    }
};

}  // namespace ncubble
