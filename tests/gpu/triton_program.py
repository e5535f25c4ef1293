"""A Triton program whose launches are tried: a product, a kernel that finds its tensors by their
addresses, and an autotuned one that adds in place. Prints a hash of its results."""

import hashlib
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def gemm(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,  # noqa: N803
):  # fmt: skip
    number = tl.program_id(0)
    rows, columns = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = number // (GROUP_M * columns)
    height = min(rows - group * GROUP_M, GROUP_M)
    inside = number % (GROUP_M * columns)
    row, column = group * GROUP_M + inside % height, inside // height
    at_m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    at_n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    at_k = tl.arange(0, BLOCK_K)
    a_tile = a + at_m[:, None] * k + at_k[None, :]
    b_tile = b + at_k[:, None] * n + at_n[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k, BLOCK_K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * n
    inside_c = (at_m[:, None] < m) & (at_n[None, :] < n)
    tl.store(c + at_m[:, None] * n + at_n[None, :], total.to(tl.float16), mask=inside_c)


@triton.jit
def scale_all(addresses, n, BLOCK: tl.constexpr):  # noqa: N803
    x = tl.load(addresses + tl.program_id(1)).to(tl.pointer_type(tl.float32))
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 1.5, mask=at < n)


@triton.autotune([triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024})], key=["n"], restore_value=["x"])
@triton.jit
def add_in_place(x, y, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def main() -> None:
    torch.manual_seed(0)
    size, count = 2048, 1 << 20
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    for _ in range(2):
        gemm[lambda meta: (triton.cdiv(size, meta["BLOCK_M"]) * triton.cdiv(size, meta["BLOCK_N"]),)](
            a, b, c, size, size, size, 64, 64, 32, GROUP_M=1, num_stages=2
        )
    tensors = [torch.randn(count, device="cuda") for _ in range(3)]
    addresses = torch.tensor([tensor.data_ptr() for tensor in tensors], device="cuda")
    scale_all[lambda meta: (triton.cdiv(count, meta["BLOCK"]), 3)](addresses, count, BLOCK=512)
    x, y = tensors[0].clone(), tensors[1]
    for _ in range(3):
        add_in_place[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](x, y, count)
    torch.cuda.synchronize()
    digest = hashlib.sha256()
    for tensor in (c, *tensors, x):
        digest.update(tensor.cpu().numpy().tobytes())
    sys.stdout.write(f"results {digest.hexdigest()}\n")


if __name__ == "__main__":
    main()
