"""``ncubble advise``: predictions for other pipeline depths and for the fix of each cause."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncubble.errors import UsageError


def advise(
    path: Annotated[Path, typer.Argument(metavar="RUN|REPORT", help="A run directory, .ncu-rep or .ncu-repz file.")],
    launch: Annotated[
        int | None, typer.Option("--launch", help="Launch number, if the report has several.", min=0)
    ] = None,
    stages: Annotated[
        int | None,
        typer.Option("--stages", help="Present pipeline depth, if neither manifest nor code shows it.", min=1, max=64),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Predict utilization and cycles at depths 1 to 8 from one profile, and the gain of each
    cause's fix. A depth without information in the report is "not identified", with the reason;
    this is not an error.
    """
    from ncubble.analysis.diagnosis.advise import advise as advise_launch
    from ncubble.analysis.report.report import Report
    from ncubble.cli.commands.advise.render import print_advice
    from ncubble.cli.terminal import emit_json

    report = Report.open(path)
    count = len(report.launches)
    if launch is None and count != 1:
        remedy = f"choose one of 0 to {count - 1} with --launch" if count else "profile again"
        raise UsageError(f"{path}: has {count} launches", remedy)
    advice = advise_launch(report.launch(launch or 0), stages)
    if as_json:
        emit_json(advice.to_json())
    else:
        print_advice(advice)
