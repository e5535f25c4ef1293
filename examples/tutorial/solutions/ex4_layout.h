// Exercise 4, solved: piece p of row r lies at place p XOR (r mod 8).
#pragma once

#ifdef __CUDACC__
#define BOTH_SIDES __host__ __device__ __forceinline__
#else
#define BOTH_SIDES inline
#endif

// Offset in bytes of byte `column` of `row` in a tile whose rows have kRowBytes (128 or a multiple).
template <int kRowBytes>
BOTH_SIDES constexpr unsigned placed_by_me(unsigned row, unsigned column) {
    return row * kRowBytes + (column ^ row % 8 * 16);
}
