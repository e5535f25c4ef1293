// The order in which CTAs take output tiles: in bands, so that the CTAs that run at one time form a near-square block
// of C.
#pragma once

namespace ncubble {

struct TilePlace {
    int row, column;  // in tiles
};

// Tile number `index` of a grid of rows x columns tiles. A band is kBand rows of tiles (the last one may be lower);
// within a band the order runs down the columns. W resident CTAs then read kBand rows of A tiles and W / kBand columns
// of B tiles, not a whole row of B tiles: fewer distinct bytes in flight, so that L2 serves most of them.
template <int kBand>
__device__ __forceinline__ TilePlace banded_place(int index, int rows, int columns) {
    const int first = index / (kBand * columns) * kBand;
    const int height = min(kBand, rows - first);
    const int within = index - first * columns;
    return {first + within % height, within / height};
}

}  // namespace ncubble
