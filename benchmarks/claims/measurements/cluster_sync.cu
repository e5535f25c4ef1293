// cluster_sync: cycles of one barrier over all CTAs of a cluster. Compute capability 9.0.
//
// Launch:       one cluster; cycles: one per CTA.
#include "cluster.cuh"

extern "C" __global__ void cluster_barriers(int count, long long* cycles) {
    ncubble::cluster_sync();
    const long long start = clock64();
    for (int i = 0; i < count; ++i) ncubble::cluster_sync();
    const long long end = clock64();
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - start;
}
