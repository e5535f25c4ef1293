"""What a GEMM on tensor cores needs of PTX, for Numba-CUDA kernels: the instructions of cp_async.cuh and mma.cuh.

- ``shared_address(generic)`` is the address in shared memory that ``copy_16`` and ``ldmatrix`` take.
- ``copy_16(shared, source)`` starts a copy of 16 bytes from global memory; both addresses are multiples of 16.
- ``commit()`` closes the calling thread's group of copies. ``wait_for_all_but(count)`` makes a function that waits
  until at most ``count`` of its groups are in flight; a barrier must follow before other threads read them.
- ``ldmatrix(shared)`` gives four registers of 8 x 8 matrices whose rows the lanes address; ``ldmatrix_transposed``,
  too, each matrix transposed. mma.cuh says which lane addresses and receives what.
- ``mma(a0, …, a3, b0, b1, c0, …, c3)`` gives c + a x b of a 16 x 8 tile and 16 steps of k: half times half in float.
- ``store_2(target, x, y)`` stores two floats to global memory, an address that is a multiple of 8.
"""

from __future__ import annotations

from typing import Any

from numba import float32, int64, uint32

from ncubble.kernels.catalog.numba.numba_ptx import instruction

FOUR = "{$0, $1, $2, $3}"


def wait_for_all_but(count: int) -> Any:
    """The instruction takes a constant, so that there is one for each."""
    return instruction(f"cp.async.wait_group {count};")


shared_address = instruction(
    "{ .reg .u64 wide; cvta.to.shared.u64 wide, $1; cvt.u32.u64 $0, wide; }", (int64,), (uint32,)
)
copy_16 = instruction("cp.async.cg.shared.global [$0], [$1], 16;", (uint32, int64))
commit = instruction("cp.async.commit_group;")
ldmatrix = instruction(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {FOUR}, [$4];", (uint32,), (uint32,) * 4)
ldmatrix_transposed = instruction(
    f"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {FOUR}, [$4];", (uint32,), (uint32,) * 4
)
mma = instruction(
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {FOUR}, {{$4, $5, $6, $7}}, {{$8, $9}}, "
    "{$10, $11, $12, $13};",
    (*(uint32,) * 6, *(float32,) * 4),
    (float32,) * 4,
    into=True,
)
store_2 = instruction("st.global.v2.f32 [$0], {$1, $2};", (int64, float32, float32))
