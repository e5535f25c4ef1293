// How the CTAs of planted_gemm and planted_dequant bring tiles into shared memory, healthy or with a planted disease.
//
// The includer defines DISEASE, all words that are compared with it here, STAGES and kThreads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cp_async.cuh"
#include "swizzle.cuh"

#ifndef STRENGTH
#define STRENGTH 0
#endif

namespace ncubble {

__host__ __device__ constexpr bool is(int disease) { return DISEASE == disease; }
// How much of a disease is planted: the parameter `strength`, or what is usual for the disease.
__host__ __device__ constexpr int strength(int usual) { return STRENGTH ? STRENGTH : usual; }

// 0 for the size of a dimension, which the compiler does not know.
__host__ __device__ __forceinline__ constexpr uint32_t nothing(int size) { return static_cast<uint32_t>(size) >> 31; }

constexpr int kPieceCopied = is(DISEASE_NARROW_COPIES) ? 4 : kPiece;  // bytes of a copy instruction and thread
// What of the swizzle is left out. Without its lowest bits, rows meet the banks of 1, 3 or 7 others out of eight.
constexpr uint32_t kConflicts = is(DISEASE_BANK_CONFLICTS) ? (strength(8) - 1) * kPiece : 0;

template <int kRowBytes>
__host__ __device__ __forceinline__ constexpr uint32_t mask_of(uint32_t row) {
    return swizzle_mask<kRowBytes>(row) & ~kConflicts;
}

// Offset of a byte in a tile whose rows have kRowBytes.
template <int kRowBytes>
__host__ __device__ __forceinline__ constexpr uint32_t placed(uint32_t row, uint32_t column) {
    return row * kRowBytes + (column ^ mask_of<kRowBytes>(row));
}

// Volatile, so that no load moves to where another tile is still being multiplied.
__device__ __forceinline__ uint4 load_now(const void* global) {
    uint4 piece;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
                 : "l"(global)
                 : "memory");
    return piece;
}

// One thread's share of the copies that bring a kRows x kRowBytes tile into shared memory: neighbours in a warp copy
// neighbouring pieces of a row. From copy to copy a thread moves down by kRowsAtOnce.
template <int kRows, int kRowBytes>
struct RowShare {
    static constexpr int kPieces = kRowBytes / kPieceCopied, kRowsAtOnce = kThreads / kPieces;
    static constexpr int kCopies = kRows / kRowsAtOnce;
    static_assert(kThreads % kPieces == 0 && kRows % kRowsAtOnce == 0, "every thread copies equally many pieces");

    const char* global;  // the thread's first piece of the present tile
    int64_t stride;      // bytes from one of its rows to the next in global memory
    uint32_t offset;     // of the first piece in a tile in shared memory

    __host__ __device__ __forceinline__ RowShare(const char* tile, int row_bytes, int thread)
        : global(tile + int64_t(thread / kPieces) * row_bytes + thread % kPieces * kPieceCopied),
          stride(int64_t(kRowsAtOnce) * row_bytes),
          offset(placed<kRowBytes>(thread / kPieces, thread % kPieces * kPieceCopied)) {}

    __host__ __device__ __forceinline__ const char* from(int i) const { return global + i * stride; }
    // kRowsAtOnce is a power of two above every first row: the masks of first row and step have no bit in common.
    __host__ __device__ __forceinline__ uint32_t to(int i) const {
        return (offset ^ mask_of<kRowBytes>(i * kRowsAtOnce)) + i * kRowsAtOnce * kRowBytes;
    }
    __host__ __device__ __forceinline__ void advance(int64_t bytes) { global += bytes; }
};

// Uncoalesced: neighbours in a warp copy pieces of neighbouring rows, which share no 128-byte line, and of each sector
// of 32 bytes one half. From copy to copy a thread moves along its row.
template <int kRows, int kRowBytes>
struct ColumnShare {
    static constexpr int kPiecesAtOnce = kThreads / kRows, kCopies = kRowBytes / kPiece / kPiecesAtOnce;
    static_assert(kThreads % kRows == 0 && kRows % 32 == 0, "a warp copies one column of pieces");

    const char* global;
    uint32_t offset;

    __host__ __device__ __forceinline__ ColumnShare(const char* tile, int row_bytes, int thread)
        : global(tile + int64_t(thread % kRows) * row_bytes + thread / kRows * kPiece),
          offset(placed<kRowBytes>(thread % kRows, thread / kRows * kPiece)) {}

    __host__ __device__ __forceinline__ const char* from(int i) const { return global + i * kPiecesAtOnce * kPiece; }
    __host__ __device__ __forceinline__ uint32_t to(int i) const { return offset ^ i * kPiecesAtOnce * kPiece; }
    __host__ __device__ __forceinline__ void advance(int64_t bytes) { global += bytes; }
};

// Address arithmetic: both addresses of every copy are made anew from the number of the piece, by divisions with
// divisors that the compiler does not know.
template <int kRows, int kRowBytes>
struct DividedShare {
    using Index = std::conditional_t<strength(32) == 64, uint64_t, uint32_t>;
    static constexpr int kPieces = kRowBytes / kPiece, kCopies = kRows * kPieces / kThreads;

    const char* first;  // of the first tile
    int64_t row_bytes, tile_bytes = 0;
    Index piece, pieces, rows;

    __host__ __device__ __forceinline__ DividedShare(const char* tile, int row_bytes, int thread)
        : first(tile), row_bytes(row_bytes), piece(thread), pieces(kPieces + nothing(row_bytes)),
          rows(kRows + nothing(row_bytes)) {}

    __host__ __device__ __forceinline__ const char* from(int i) const {
        const Index number = piece + i * kThreads, line = number / pieces, column = number % pieces;
        return first + static_cast<int64_t>(line % rows) * row_bytes + static_cast<int64_t>(line / rows) * tile_bytes +
               column * kPiece;
    }
    __host__ __device__ __forceinline__ uint32_t to(int i) const {
        const Index number = piece + i * kThreads;
        return placed<kRowBytes>(number / pieces % rows, number % pieces * kPiece);
    }
    __host__ __device__ __forceinline__ void advance(int64_t bytes) { tile_bytes = bytes, piece += kCopies * kThreads; }
};

template <int kRows, int kRowBytes>
using Share = std::conditional_t<
    is(DISEASE_UNCOALESCED), ColumnShare<kRows, kRowBytes>,
    std::conditional_t<is(DISEASE_ADDRESS_ARITHMETIC), DividedShare<kRows, kRowBytes>, RowShare<kRows, kRowBytes>>>;

// A CTA's copies of all tiles of A (kRowsA x kRowA bytes) and B (kRowsB x kRowB bytes) into a ring of STAGES buffers.
template <int kRowsA, int kRowA, int kRowsB, int kRowB>
struct Copies {
    static constexpr int kBytesA = kRowsA * kRowA, kBytesStage = kBytesA + kRowsB * kRowB;
    static constexpr int kBytesRing = STAGES * kBytesStage;

    char* ring;
    Share<kRowsA, kRowA> a;
    Share<kRowsB, kRowB> b;
    int64_t tile_b;    // bytes from a tile of B to the next in global memory
    int left;          // tiles that are not yet on their way
    uint32_t write = 0;

    __device__ __forceinline__ Copies(char* ring, const void* a, int row_a, const void* b, int row_b, int tiles)
        : ring(ring), a(static_cast<const char*>(a), row_a, threadIdx.x),
          b(static_cast<const char*>(b), row_b, threadIdx.x), tile_b(int64_t(kRowsB) * row_b), left(tiles) {}

    // Part `part` of `parts` of the copies of the next tile; nothing if there is none.
    __device__ __forceinline__ void issue(int part, int parts) const {
        char* stage = ring + write;
        if (left > 0) {
#pragma unroll
            for (int i = 0; i < a.kCopies; ++i)
                if (i * parts / a.kCopies == part) cp_async<kPieceCopied>(stage + a.to(i), a.from(i));
#pragma unroll
            for (int i = 0; i < b.kCopies; ++i)
                if (i * parts / b.kCopies == part) cp_async<kPieceCopied>(stage + kBytesA + b.to(i), b.from(i));
        }
    }

    // Not asynchronous: the next tile passes through registers.
    __device__ __forceinline__ void move() const {
        uint4 held[a.kCopies + b.kCopies];
#pragma unroll
        for (int i = 0; i < a.kCopies; ++i) held[i] = load_now(a.from(i));
#pragma unroll
        for (int i = 0; i < b.kCopies; ++i) held[a.kCopies + i] = load_now(b.from(i));
        char* stage = ring + write;
#pragma unroll
        for (int i = 0; i < a.kCopies; ++i) *reinterpret_cast<uint4*>(stage + a.to(i)) = held[i];
#pragma unroll
        for (int i = 0; i < b.kCopies; ++i) *reinterpret_cast<uint4*>(stage + kBytesA + b.to(i)) = held[a.kCopies + i];
    }

    // Exactly one group is committed per tile, empty past the last one, so that counting groups counts tiles.
    __device__ __forceinline__ void close() {
        if (!is(DISEASE_NO_ASYNC)) cp_async_commit();
        step(write);
        a.advance(kRowA);
        b.advance(tile_b);
        --left;
    }

    // From a stage of the ring to the next.
    __device__ __forceinline__ static void step(uint32_t& stage) {
        stage = stage == kBytesRing - kBytesStage ? 0 : stage + kBytesStage;
    }
};

}  // namespace ncubble
