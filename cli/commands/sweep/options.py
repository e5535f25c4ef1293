"""The options of ``ncubble sweep``, as typer wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(help="A kernel of the catalog.")]
Axes = Annotated[
    list[str] | None,
    typer.Option(
        "-g", metavar="K=VALUES", help="Vary a parameter or dimension: 1:6, 512:8192:x2, a,b; m=n=k=… together."
    ),
]
Parameters = Annotated[list[str] | None, typer.Option("-p", metavar="K=V", help="Fix a parameter, repeatable.")]
Shape = Annotated[str | None, typer.Option(metavar="K=V,…", help="Fix dimensions, for example m=4096,n=4096.")]
Sample = Annotated[int | None, typer.Option(metavar="N", help="Points to take, with --method random or lhs.")]
Method = Annotated[str, typer.Option(metavar="grid|random|lhs", help="Which points of the grid.")]
Seed = Annotated[int, typer.Option(help="Of the sample: equal seeds take equal points.")]
Catalog = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with kernels of your own.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SET", help="Metric set, repeatable (ncubble profile --list-sets)."),
]
Metrics = Annotated[list[str] | None, typer.Option(metavar="NAME", help="A further metric, repeatable.")]
Repeat = Annotated[int, typer.Option(min=1, help="Launches of each point, in one run.")]
ClockControl = Annotated[str, typer.Option(metavar="none|base", help="base: ncu locks the clocks.")]
CacheControl = Annotated[str, typer.Option(metavar="all|none", help="none: caches stay warm.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="The store (default sweeps/NAME).")]
Scheduler = Annotated[str, typer.Option(metavar="ADDRESS", help="A running Dask scheduler, or the file that it wrote.")]
Gpus = Annotated[str, typer.Option(metavar="LIST", help="GPUs of this host, by number or UUID (default all).")]
DeviceName = Annotated[str, typer.Option(metavar="NAME", help="In a mixed cluster: only GPUs of this name.")]
Timeout = Annotated[float, typer.Option(metavar="S", help="Time limit of a job.")]
Wait = Annotated[float, typer.Option(metavar="S", help="How long to go on without any worker.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Measure failed points again.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan; needs no GPU and measures nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
