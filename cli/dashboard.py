"""``ncubble dashboard`` and ``ncubble demo``: the interactive view of your own or the shipped
runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.terminal import terminal_width, wrapped
from ncubble.errors import MeasurementError, UsageError

if TYPE_CHECKING:
    from ncubble.dashboard.app.serving import Server
    from ncubble.dashboard.data.store import ReportStore

HOST, PORT = "127.0.0.1", 8050
UPLOAD_MB = 512
DEMO_S = 60.0
"""How long the demo waits for the recordings that only the dashboard shows."""
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")]


def dashboard(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run directories, report files, or folders of them (default: ./runs, else the shipped runs)."
        ),
    ] = None,
    port: Port = PORT,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = HOST,
    trust: Annotated[list[str] | None, typer.Option("--trust", help="Also accept this host name.")] = None,
    upload_limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="MB", help="Largest upload (default: 512, or 0 if others can reach the address)."),
    ] = None,
    checks: Annotated[
        Path | None, typer.Option("--checks", metavar="DIR", help="History of `ncubble check` (default: ./checks).")
    ] = None,
    with_token: Annotated[
        bool, typer.Option("--token/--no-token", help="Require the token in the printed address.")
    ] = True,
) -> None:
    """Serve the dashboard: a table of all launches, and a page with account and timeline for
    each."""
    _keep_little()
    from ncubble.dashboard.app.app import open_server
    from ncubble.dashboard.app.serving import is_loopback, new_token
    from ncubble.dashboard.data.store import default_paths
    from ncubble.profiling.runs import SUFFIXES, Run, require_paths

    chosen = default_paths(paths or [], Path.cwd())
    require_paths(chosen)
    for path in chosen:
        if path.is_file() and path.suffix not in SUFFIXES:
            Run.load(path)  # raises, as it is no report: a server would show an empty table
    if checks is not None and not checks.is_dir():
        raise UsageError(f"--checks {checks}: no such folder", "name the folder that `ncubble check` wrote to")
    token = new_token() if with_token else None
    # Whoever reaches the address may add files, so by default only this machine.
    upload_mb = upload_limit if upload_limit is not None else UPLOAD_MB if is_loopback(host) else 0
    server, _ = open_server(chosen, host, port, trusted=trust or (), upload_mb=upload_mb, checks=checks, token=token)
    if not is_loopback(host):
        risk = (
            "traffic to this address is not encrypted"
            if with_token
            else "anyone who can reach this address can read the reports"
        )
        risk += f", and whoever can may add files of {upload_mb} MB" if upload_mb else ""
        typer.echo(f"ncubble: {risk}; use it only in a trusted network", err=True)
    _serve(server, token)


def demo(
    port: Port = PORT,
    once: Annotated[bool, typer.Option("--once", help="Check that the page loads, then exit.")] = False,
) -> None:
    """Show runs recorded on real GPUs: accounts and a tour in the terminal, then the dashboard."""
    _keep_little()
    from ncubble.api.reporting import Selection, report
    from ncubble.cli.accounts import print_report
    from ncubble.cli.terminal import reading
    from ncubble.profiling.runs import find_runs
    from ncubble.recordings import CHECKS, FULL, H100, LANES, LEVELS, PROGRAM, RANKS, ROOT

    if not any(find_runs([ROOT])):
        raise MeasurementError(
            f"{ROOT}: the shipped runs are not installed",
            "reinstall ncubble, or view your own runs: ncubble dashboard PATH",
        )
    with reading() as progress:
        found = report([ROOT], Selection(limit=12), progress=progress)
    print_report(found)
    from ncubble.dashboard.app.app import open_server  # imports for a second

    server, store = open_server([ROOT, H100, FULL, LANES, LEVELS, RANKS, PROGRAM], HOST, port, checks=CHECKS)
    try:
        _tour()
        printed = len(found.launches)
        if once:
            _answer_once(server, store)
            return
    except BaseException:
        server.close()
        raise
    store.wait(DEMO_S)
    if more := store.progress().launches - printed:
        where = "on an H100, on two GPUs, or with all rules of Nsight Compute"
        text = f"the dashboard shows {printed + more} launches: {printed} recorded on an H200, and {more} {where}"
        typer.echo("\n".join(wrapped(text, terminal_width())), err=True)
    typer.echo(f"your own reports: {_called()} report FILE.ncu-rep", err=True)
    typer.echo(f"all commands: {_called()} --help", err=True)
    _serve(server)


def _tour() -> None:
    """Print a GEMM with a bubble, its verdict, the same GEMM with the first change, and, in a
    checkout, the gate that names the line of a planted regression; each below its command."""
    import ncubble
    from ncubble.api.reporting import report
    from ncubble.cli.accounts import print_report
    from ncubble.cli.gate import print_result
    from ncubble.cli.terminal import console
    from ncubble.recordings import SHIPPED

    broken, fixed = (SHIPPED / "h200" / "gemm_tma" / stages for stages in ("stages2", "stages3"))
    _step("1. A GEMM that waits for data. The first change is the one to try:", "report", broken)
    print_report(report([broken]))
    _step("2. The same GEMM after that change:", "compare", broken, fixed)
    typer.echo("\n".join(wrapped(ncubble.compare(broken, fixed).sentences[0], terminal_width())))
    planted, baselines = SHIPPED / "h200-gate" / "wait_for_all_copies", SHIPPED.parent / "baselines"
    if planted.is_dir() and baselines.is_dir():
        gate = f"check --baseline {_from_here(baselines)}"
        _step("3. Another GEMM, in which one edited line waits for all copies. The gate names it:", gate, planted)
        print_result(ncubble.check(planted, baseline=baselines, config=False).result, console())
    typer.echo()


def _step(title: str, command: str, *paths: Path) -> None:
    """Print the title of a step of the tour and the command that shows the same."""
    typer.secho(f"\n{title}", bold=True)
    typer.echo(f"$ {_called()} {command} {' '.join(map(_from_here, paths))}")


def _from_here(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _keep_little() -> None:
    """Have pyarrow, which is not imported yet, free memory: its own pool keeps what pages needed,
    some 70 MB."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def _called() -> str:
    """How to call this command: ``ncubble`` if it is on PATH, else its path."""
    import shutil
    import sys

    program = Path(sys.argv[0]).absolute()
    if shutil.which(program.name) == str(program):
        return program.name
    return _from_here(program)


def _serve(server: Server, token: str | None = None) -> None:
    """Print the address with the token, and serve until the user stops it."""
    from ncubble.dashboard.app.serving import limit_log

    url = f"{server.url}?token={token}" if token else server.url
    limit_log()
    _end_in_order()
    typer.echo(f"dashboard on {url} (Ctrl+C ends it)", err=True)
    server.run()


def _end_in_order() -> None:
    """Handle SIGTERM and a closed terminal like Ctrl+C, so that added files are removed. Only the
    first signal counts, because a closed terminal often sends two. Signals ignored by ``nohup``
    stay ignored.
    """
    import signal

    heard = [signum for signum in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(signum) != signal.SIG_IGN]

    def end(number: int, frame: object) -> None:
        for signum in heard:
            signal.signal(signum, signal.SIG_IGN)
        raise KeyboardInterrupt

    for signum in heard:
        signal.signal(signum, end)


def _answer_once(server: Server, store: ReportStore) -> None:
    """Fetch the page over HTTP after everything is loaded, and print a summary."""
    import threading
    import urllib.request

    store.wait()
    threading.Thread(target=server.run, daemon=True).start()
    try:
        with urllib.request.urlopen(server.url, timeout=30) as answer:  # noqa: S310
            status = int(answer.status)
    finally:
        server.close()
    progress = store.progress()
    if status != 200 or progress.failures or not progress.launches:
        raise MeasurementError(
            f"{server.url}: status {status}, {progress.launches} launches, {progress.failures} failures",
            "run `ncubble demo` without --once and open the page",
        )
    typer.echo(f"dashboard on {server.url}: {progress.launches} launches", err=True)
