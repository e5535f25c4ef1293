"""One process that answers on one address until it is told to stop."""

from __future__ import annotations

import resource
import sys
import threading
from typing import Any

from dash import Dash

from ncubble.dashboard.app.security import LARGEST_BODY_B
from ncubble.errors import UsageError

POLL_S = 0.5
"""How often an idle server checks whether it should stop."""
RECEIVE_B = 128 << 10
"""Bytes read from a socket at a time: waitress' default of 8 KiB more than doubles the CPU time of
an upload."""

MOST_CONNECTIONS, SPARE_FILES = 1000, 200
"""Maximum connections, and files reserved for reports: beyond the limit of the process, every
accept fails."""
SWITCH_S = 0.001
"""How long a thread that computes may keep others waiting, which mostly pass an answer on."""
UNFINISHED_S = 20
"""An idle connection is closed after this many seconds, unless it waits for an answer."""


class Server:
    """A server that is bound: ``url`` says where, ``run`` blocks and answers, ``close`` ends it
    from any thread."""

    def __init__(self, app: Dash, host: str, port: int, threads: int = 8) -> None:
        """Bind ``host``:``port`` (0: any free port). Raises UsageError where the address is taken
        or not ours."""
        from waitress.server import create_server

        host = host.strip("[]")
        self._sockets: dict[int, Any] = {}
        self._stop, self._ended = threading.Event(), threading.Event()
        self._running = False
        try:
            bound = create_server(
                app.server,
                map=self._sockets,
                host=host,
                port=port,
                threads=threads,
                ident="ncubble",
                max_request_body_size=LARGEST_BODY_B + 1,
                recv_bytes=RECEIVE_B,
                connection_limit=_most_connections(),
                channel_timeout=UNFINISHED_S,
                cleanup_interval=UNFINISHED_S // 4,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot listen on {host}:{port} ({reason})", "choose another --port or --host") from error
        self._dispatcher = bound.task_dispatcher
        listening = getattr(bound, "effective_listen", None) or [(bound.effective_host, bound.effective_port)]
        self.port = int(listening[0][1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def run(self) -> None:
        """Answer requests until ``close`` is called or the user interrupts; the port is free again
        afterwards."""
        from waitress import wasyncore

        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._running = True
        try:
            while not self._stop.is_set():
                wasyncore.loop(timeout=POLL_S, use_poll=True, map=self._sockets, count=1)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setswitchinterval(before)
            self._release()

    def close(self) -> None:
        """Stop answering and give the port back; waits until a running server has done so."""
        self._stop.set()
        if self._running:
            self._ended.wait(10 * POLL_S)
        else:
            self._release()

    def _release(self) -> None:
        from waitress import wasyncore

        self._dispatcher.shutdown()
        wasyncore.close_all(self._sockets, ignore_all=True)
        self._ended.set()


def _most_connections() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(100, min(MOST_CONNECTIONS, files - SPARE_FILES))
