"""Chunks through one or several streams with Numba, for `ncubble streams`.

ncubble streams -- python examples/numba_streams.py 1
ncubble streams -- python examples/numba_streams.py 3
"""

from __future__ import annotations

import sys

import numpy as np
from numba import cuda

CHUNKS, SIZE = 12, 1 << 22


@cuda.jit
def refine(x, turns):
    """Some work per element."""
    at = cuda.grid(1)
    if at < x.size:
        value = x[at]
        for _ in range(turns):
            value = value * np.float32(1.0001) + np.float32(0.5)
        x[at] = value


def main() -> None:
    """Chunks in turn on as many streams as asked for."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    streams = [cuda.stream() for _ in range(count)]
    hosts = [cuda.pinned_array(SIZE, dtype=np.float32) for _ in range(count)]
    devices = [cuda.device_array(SIZE, dtype=np.float32) for _ in range(count)]
    refine[SIZE // 256, 256, streams[0]](devices[0], 200)
    cuda.synchronize()
    cuda.profile_start()
    for index in range(CHUNKS):
        lane = index % count
        devices[lane].copy_to_device(hosts[lane], stream=streams[lane])
        refine[SIZE // 256, 256, streams[lane]](devices[lane], 200)
        devices[lane].copy_to_host(hosts[lane], stream=streams[lane])
    cuda.synchronize()
    cuda.profile_stop()


if __name__ == "__main__":
    main()
