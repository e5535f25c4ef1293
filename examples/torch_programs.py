"""Programs in PyTorch for `ncubble program`: a transformer's training step, and an inference loop.

    ncubble program --nvtx step -- python examples/torch_programs.py train
    ncubble program --nvtx step -- python examples/torch_programs.py train --compile
    ncubble program --nvtx request -- python examples/torch_programs.py infer
    ncubble program -- python examples/torch_programs.py train --small --steps 6

Every step lies in an NVTX range ``step`` with ``forward``, ``backward`` and ``optimizer`` within; every
request in ``request``. torch is imported where it is used: ``--help`` needs none.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """A decoder of ``layers`` blocks of ``width``, and what it is fed."""

    layers: int = 12
    width: int = 1024
    heads: int = 16
    tokens: int = 1024
    batch: int = 8
    words: int = 32_000


SMALL = Shape(layers=2, width=256, heads=4, tokens=256, batch=4, words=1_000)
"""Small enough that its recording can be shipped."""


@dataclass(frozen=True)
class Job:
    """What to run."""

    mode: str
    steps: int
    compiled: bool
    shape: Shape


def job_of(arguments: Sequence[str]) -> Job:
    """The job that arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("train", "infer"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--small", action="store_true", help="two layers of width 256")
    given = parser.parse_args(arguments)
    return Job(given.mode, given.steps, given.compile, SMALL if given.small else Shape())


def model_of(shape: Shape) -> Any:
    """A decoder with causal attention in bf16 on the GPU."""
    import torch
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
            self.queries = nn.Linear(shape.width, 3 * shape.width)
            self.out = nn.Linear(shape.width, shape.width)
            self.wide = nn.Sequential(
                nn.Linear(shape.width, 4 * shape.width), nn.GELU(), nn.Linear(4 * shape.width, shape.width)
            )

        def forward(self, x: Any) -> Any:
            batch, tokens, width = x.shape
            parts = self.queries(self.first(x)).view(batch, tokens, 3, shape.heads, width // shape.heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.wide(self.second(x))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(shape.words, shape.width)
            self.blocks = nn.Sequential(*(Block() for _ in range(shape.layers)))
            self.head = nn.Linear(shape.width, shape.words)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.blocks(self.words(tokens)))

    return Decoder().to("cuda", torch.bfloat16)


def train(job: Job, model: Any) -> None:
    """Steps of AdamW on random tokens; the loss is read every step, as many loops do."""
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    shape = job.shape
    tokens = torch.randint(shape.words, (shape.batch, shape.tokens + 1), device="cuda")
    span = torch.cuda.nvtx.range
    for _ in range(job.steps):
        with span("step"):
            with span("forward"):
                logits = model(tokens[:, :-1])
                loss = cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
            with span("backward"):
                loss.backward()
            with span("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            loss.item()


def infer(job: Job, model: Any) -> None:
    """Requests of a few tokens each: the next word is chosen on the GPU and appended, without a
    cache of keys."""
    import torch

    shape = job.shape
    with torch.inference_mode():
        for _ in range(job.steps):
            with torch.cuda.nvtx.range("request"):
                tokens = torch.randint(shape.words, (1, shape.tokens // 4), device="cuda")
                for _ in range(4):
                    following = model(tokens)[:, -1].argmax(-1, keepdim=True)
                    tokens = torch.cat([tokens[:, 1:], following], 1)
                tokens.cpu()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one job."""
    import sys

    job = job_of(sys.argv[1:] if arguments is None else arguments)
    import torch

    model = model_of(job.shape)
    if job.compiled:
        model = torch.compile(model)
    {"train": train, "infer": infer}[job.mode](job, model)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
