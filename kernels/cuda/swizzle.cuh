// XOR swizzle of shared-memory tiles: no padding, and eight rows at the same column meet eight different bank groups.
//
// Shared memory serves 128 bytes a cycle: 32 banks, or 8 pieces of 16 bytes, which is what one 8 x 8 matrix of ldmatrix
// reads, one piece from each of eight rows. In an unpadded tile whose rows are a multiple of 128 bytes all eight pieces
// lie in the same banks. So piece p of row r is stored at place p XOR (r mod 8) instead: still a permutation within 128
// bytes, and any eight consecutive rows hold their piece p in eight different places. Rows of 64 bytes share 128 bytes
// pairwise: there r / 2 mod 4 permutes four places. With rows of exactly 128 (64) bytes in a tile that starts at a
// multiple of 1024 (512) bytes, this is the order of CU_TENSOR_MAP_SWIZZLE_128B (_64B).
#pragma once

#include <cstdint>

namespace ncubble {

constexpr int kPiece = 16;  // bytes that move together

// What is XORed to the offset in bytes of any piece of `row`.
template <int kRowBytes>
__host__ __device__ __forceinline__ constexpr uint32_t swizzle_mask(uint32_t row) {
    static_assert(kRowBytes == 64 || kRowBytes % 128 == 0, "rows of 64 bytes or of a multiple of 128");
    return kRowBytes == 64 ? row / 2 % 4 * kPiece : row % 8 * kPiece;
}

// Offset in bytes of byte `column` of `row` in a tile whose rows have kRowBytes. It is additive in rows by eights, so
// that a thread that walks down a tile in steps of 8 rows adds constants: swizzled(r + 8 i, c) = swizzled(r, c) + 8 i
// kRowBytes. Along the columns only steps of 128 bytes add; smaller ones XOR: swizzled(r, c ^ d) = swizzled(r, c) ^ d.
template <int kRowBytes>
__host__ __device__ __forceinline__ constexpr uint32_t swizzled(uint32_t row, uint32_t column) {
    return row * kRowBytes + (column ^ swizzle_mask<kRowBytes>(row));
}

}  // namespace ncubble
