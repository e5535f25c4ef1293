"""A training-like loop in PyTorch for `ncubble streams`: batches go to the GPU, through two
products, and back.

    ncubble streams -- python examples/torch_streams.py pageable
    ncubble streams -- python examples/torch_streams.py pinned

``pageable`` moves batches with ``.to(device)``: the host waits for every copy. ``pinned`` keeps
batches in page-locked memory and copies them ahead, on a stream of their own, while the products of
the batch before run.
"""

from __future__ import annotations

import sys

import torch

BATCHES, ROWS, WIDTH = 12, 8192, 4096


def pageable(weights: torch.Tensor) -> None:
    """One batch after the other."""
    batches = [torch.randn(ROWS, WIDTH, dtype=torch.float32) for _ in range(2)]
    torch.cuda.profiler.start()
    for index in range(BATCHES):
        batch = batches[index % 2].to("cuda").to(torch.bfloat16)
        (batch @ weights @ weights).float().sum().item()
    torch.cuda.profiler.stop()


def pinned(weights: torch.Tensor) -> None:
    """The next batch is copied while this one is computed."""
    batches = [torch.randn(ROWS, WIDTH, dtype=torch.float32).pin_memory() for _ in range(2)]
    slots = [torch.empty(ROWS, WIDTH, device="cuda") for _ in range(2)]
    uploads, here = torch.cuda.Stream(), torch.cuda.current_stream()
    done = [torch.cuda.Event() for _ in range(2)]
    sums = []
    torch.cuda.profiler.start()
    for index in range(BATCHES):
        slot = slots[index % 2]
        with torch.cuda.stream(uploads):
            uploads.wait_event(done[index % 2])
            slot.copy_(batches[index % 2], non_blocking=True)
        here.wait_stream(uploads)
        sums.append((slot.to(torch.bfloat16) @ weights @ weights).float().sum())
        done[index % 2].record(here)
    torch.stack(sums).cpu()
    torch.cuda.profiler.stop()


def main() -> None:
    """Warm up, then one mode."""
    mode = sys.argv[1] if len(sys.argv) > 1 else "pageable"
    weights = torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    warm = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    (warm @ weights @ weights).float().sum().item()
    {"pageable": pageable, "pinned": pinned}[mode](weights)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
