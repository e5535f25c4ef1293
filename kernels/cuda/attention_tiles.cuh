// Which query tile comes when, and how many tiles of keys it meets: the same for both paths of attention_fwd.
#pragma once

namespace ncubble {

// kRows queries of one head, and the tiles of kKeys keys that any of them may see: 0 .. key_tiles - 1.
struct QueryTile {
    int head, first_row, key_tiles;
};

// The order of work: heads in sections, within a section the last query tiles first, heads fastest. With the causal
// mask the last tiles are the longest, so that a section ends with short ones and no SM is left alone with a long one;
// a section's K and V are small enough to stay in L2 while all its tiles pass over them. Without the mask all tiles are
// alike, and a section is one head. kGroup heads of queries in a row share a head of K and V.
template <int kRows, int kKeys, int kHeadDim, bool kCausal, int kGroup = 1>
struct TileOrder {
    static constexpr int kSectionBytes = 16 << 20;  // of K and V: a part of L2, whose halves may each hold a copy

    int heads, tokens, tiles_per_head, section;

    __device__ __forceinline__ TileOrder(int heads, int tokens)
        : heads(heads), tokens(tokens), tiles_per_head((tokens + kRows - 1) / kRows) {
        constexpr int kTokenBytes = 2 * kHeadDim * 2;  // a row of K and a row of V, 2 bytes each
        section = kCausal ? min(heads, kGroup * max(1, kSectionBytes / kTokenBytes / tokens)) : 1;
    }

    __device__ __forceinline__ int size() const { return heads * tiles_per_head; }

    __device__ __forceinline__ QueryTile operator[](int index) const {
        const int per_section = section * tiles_per_head;
        const int first_head = index / per_section * section, within = index % per_section;
        const int width = min(section, heads - first_head);  // the last section may have fewer heads
        QueryTile tile;
        tile.head = first_head + within % width;
        tile.first_row = (tiles_per_head - 1 - within / width) * kRows;
        const int keys = kCausal ? min(tokens, tile.first_row + kRows) : tokens;
        tile.key_tiles = (keys + kKeys - 1) / kKeys;
        return tile;
    }
};

// Keys that query `row` may see: 0 .. limit - 1.
template <bool kCausal>
__device__ __forceinline__ int key_limit(int row, int tokens) {
    return kCausal ? min(row + 1, tokens) : tokens;
}

}  // namespace ncubble
