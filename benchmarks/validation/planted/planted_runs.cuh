// Which steps along k of which tiles a CTA of planted_waves takes. No CTA is needed here: a compiler of the host does.
#pragma once

namespace ncubble {

// Steps first..last - 1 of a tile.
struct Segment {
    int tile, first, last;
};

// Whole tiles as long as there is one for every CTA; then a run of all steps of the tiles that are left, as long as
// that of any other. CTAs that run whole tiles together are at the same k, so that L2 serves what they share; were all
// steps shared out as runs, each CTA would be elsewhere along k, and bring its own bytes from DRAM.
struct Runs {
    int steps;  // of a tile
    int tile, ctas, whole;
    long long left;       // steps of the tiles from `whole` on
    int sharers;          // CTAs that have any of these steps
    long long next, end;  // of the run

    __host__ __device__ __forceinline__ Runs(int tiles, int steps, int cta, int ctas)
        : steps(steps),
          tile(cta),
          ctas(ctas),
          whole(tiles / ctas * ctas),
          left(static_cast<long long>(tiles - whole) * steps),
          sharers(left < ctas ? static_cast<int>(left) : ctas),
          next(border(cta)),
          end(border(cta + 1)) {}

    __host__ __device__ __forceinline__ long long border(int cta) const {
        return cta < sharers ? left * cta / sharers : left;
    }
    __host__ __device__ __forceinline__ bool more() const { return tile < whole || next < end; }

    __host__ __device__ __forceinline__ Segment take() {
        if (tile < whole) {
            const Segment all{tile, 0, steps};
            tile += ctas;
            return all;
        }
        const int index = static_cast<int>(next / steps), first = static_cast<int>(next % steps);
        const long long beyond = first + end - next;
        const int last = beyond < steps ? static_cast<int>(beyond) : steps;
        next += last - first;
        return {whole + index, first, last};
    }

    // The first CTA behind those that have steps of this tile, of `whole` or later.
    __host__ __device__ __forceinline__ int behind(int tile) const {
        const long long end_of_tile = static_cast<long long>(tile - whole + 1) * steps;
        return static_cast<int>((end_of_tile * sharers + left - 1) / left);  // border() is there, or beyond
    }
};

}  // namespace ncubble
