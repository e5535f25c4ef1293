"""``ncubble dashboard`` and ``ncubble demo``: the interactive view of runs, one's own or the recorded ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ncubble.dashboard.app.server import Server
    from ncubble.dashboard.data.store import ReportStore

HOST, PORT = "127.0.0.1", 8050
UPLOAD_MB = 512
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands to ``app``."""
    app.command("dashboard")(dashboard)
    app.command("demo")(demo)


def dashboard(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Run directories, report files, or folders of them (else ./runs, else the recorded runs)."),
    ] = None,
    port: Port = PORT,
    host: Annotated[str, typer.Option(help="Address to listen on. Whoever reaches it can read the reports.")] = HOST,
    trust: Annotated[
        list[str] | None, typer.Option("--trust", help="Another host name under which browsers may ask for it.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = False,
    upload_limit: Annotated[
        int, typer.Option(min=0, metavar="MB", help="Largest file that may be added in the browser; 0: none may.")
    ] = UPLOAD_MB,
    allow_upload: Annotated[
        bool, typer.Option("--allow-upload", help="Let files be added though others reach the address, too.")
    ] = False,
    checks: Annotated[
        Path | None, typer.Option("--checks", metavar="DIR", help="History of `ncubble check` (else ./checks).")
    ] = None,
) -> None:
    """Serve the dashboard: every launch in one table, and a page with account and timeline for each."""
    from ncubble.dashboard.data.openers import default_paths
    from ncubble.errors import UsageError

    chosen = default_paths(paths or [], Path.cwd())
    if absent := [path for path in chosen if not path.exists()]:
        raise UsageError(f"{absent[0]}: no such file or directory", "name run directories or report files")
    if checks is not None and not checks.is_dir():
        raise UsageError(f"--checks {checks}: no such folder", "name the folder that `ncubble check` wrote to")
    server, _ = _bind(chosen, host, port, trust or [], _upload_mb(host, upload_limit, allow_upload), checks)
    if host != HOST:
        typer.echo("ncubble: no password protects this address; keep it inside a network you trust", err=True)
    if browser:
        typer.launch(server.url)
    _serve(server)


def demo(
    port: Port = PORT,
    once: Annotated[bool, typer.Option("--once", help="Answer one request of its own instead of serving on.")] = False,
) -> None:
    """Show runs that were recorded on real GPUs: their bubble accounts here, then the dashboard."""
    from ncubble.cli.commands.report.report import print_report
    from ncubble.errors import MeasurementError
    from ncubble.profiling.runs.run import find_runs
    from ncubble.recordings import CHECKS, FULL, LANES, RANKS, ROOT

    if not any(find_runs([ROOT])):
        raise MeasurementError(
            f"{ROOT}: no recorded run is installed", "reinstall ncubble, or show your own runs: ncubble dashboard PATH"
        )
    server, store = _bind([ROOT, FULL, LANES, RANKS], HOST, port, [], UPLOAD_MB, CHECKS)
    try:
        print_report([ROOT])
        if once:
            _answer_once(server, store)
            return
    except BaseException:
        server.close()
        raise
    _serve(server)


def _upload_mb(host: str, limit: int, allowed: bool) -> int:
    """MB that an added file may have: whoever reaches the address may add files, so by default only this machine."""
    from ncubble.dashboard.app.security import is_loopback

    return limit if allowed or is_loopback(host) else 0


def _bind(
    paths: list[Path], host: str, port: int, trust: list[str], upload_mb: int = 0, checks: Path | None = None
) -> tuple[Server, ReportStore]:
    """Listen before anything is printed: a port that is taken is said at once. Reports load in the background."""
    from ncubble.analysis.history.checked import default_checks
    from ncubble.dashboard.app.app import create_app
    from ncubble.dashboard.app.server import Server
    from ncubble.dashboard.data.store import ReportStore
    from ncubble.dashboard.pages.open.uploads import UploadLimits, clear_leftovers

    clear_leftovers()
    history = (checks or default_checks(paths, Path.cwd())).absolute()  # now: the working directory may vanish later
    store, limits = ReportStore(paths, watch=True, checks=history), UploadLimits.of_megabytes(upload_mb)
    return Server(create_app(paths, host=host, trusted=trust, store=store, limits=limits), host, port), store


def _serve(server: Server) -> None:
    _end_in_order()
    typer.echo(f"dashboard on {server.url} (Ctrl+C ends it)", err=True)
    server.run()


def _end_in_order() -> None:
    """End on SIGTERM, and when the terminal is closed, as on Ctrl+C: added files are removed then, too.

    Only the first signal counts, for a closed terminal often sends two. What ``nohup`` has silenced stays so.
    """
    import signal

    heard = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]

    def end(number: int, frame: object) -> None:
        for one in heard:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    for one in heard:
        signal.signal(one, end)


def _answer_once(server: Server, store: ReportStore) -> None:
    """Fetch the page over HTTP once everything is loaded, and say what it would show."""
    import threading
    import urllib.request

    from ncubble.errors import MeasurementError

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
            "run ncubble demo without --once and look at the page",
        )
    typer.echo(f"dashboard on {server.url}: {progress.launches} launches", err=True)
