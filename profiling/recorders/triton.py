"""Runs a program whose Triton launches are tried with other settings (``triton_hook``). The program
is not modified, and its results are its own."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.profiling.ncu import Filters
from ncubble.profiling.processes import refuse_inside_profiler
from ncubble.profiling.recorders import ncu, triton_hook
from ncubble.profiling.session import ProgramEnd, Session


class LaunchLostError(MeasurementError):
    """The program ended while a launch was tried: a fault of that launch, or it hung."""


@dataclass
class TritonLaunch:
    """A launch that waits in the program. ``facts``: what ``triton_hook`` says of it."""

    facts: dict[str, Any]
    _file: Any

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request; raises LaunchLostError where the program ends instead."""
        try:
            self._file.write(json.dumps(request) + "\n")
            self._file.flush()
            line = self._file.readline()
        except OSError:
            line = ""
        if not line:
            raise LaunchLostError("the program ended while a launch was tried", "leave this setting out")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass
class TritonRecording:
    """How a program ended, how many launches were tried, and why others could not be."""

    end: ProgramEnd
    served: int = 0
    refused: list[str] = field(default_factory=list)


def record(session: Session, filters: Filters, serve: Callable[[TritonLaunch], None]) -> TritonRecording:
    """Run the program to its end. ``serve`` is called in a thread for each Triton launch that
    ``filters`` select (kernel, skip, count), while the program waits there; what it raises is
    raised here. Raises UsageError."""
    refuse_inside_profiler(os.environ)
    env = _environment(session, filters)
    recording = TritonRecording(ProgramEnd(0, 0.0))
    raised: list[BaseException] = []
    # A short path of its own: names of Unix sockets have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ncubble-") as folder, socket.socket(socket.AF_UNIX) as server:
        path = Path(folder) / "try"
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(
            target=_accept, args=(server, serve, recording, raised, filters.count or 1), daemon=True
        )
        thread.start()
        try:
            recording.end = session.run(session.subject.argv, {**env, "NCUBBLE_TRY_SOCKET": str(path)})
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
    if raised:
        raise raised[0]
    return recording


def profile(session: Session, filters: Filters) -> None:
    """Record the launch that ``record`` would serve under ncu, into an open session. Raises as
    ``ncu.record`` does."""
    marked = copy(session)
    place = session.subject.place
    env = {**place.env, **_environment(session, filters), "NCUBBLE_TRY_WINDOW": "1"}
    marked.subject = replace(session.subject, function="", place=replace(place, env=env))
    ncu.record(marked, ncu.NcuSettings(filters=Filters(window=True)))
    session.manifest = marked.manifest


def _environment(session: Session, filters: Filters) -> dict[str, str]:
    """What makes Python load the hook, and which launch it is about."""
    place = {**os.environ, **session.subject.place.env}
    search = (str(Path(triton_hook.__file__).parent.absolute()), place.get("PYTHONPATH", ""))
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, search)),
        **filters.variables("NCUBBLE_TRY", session.subject.function),
    }


def _accept(
    server: socket.socket,
    serve: Callable[[TritonLaunch], None],
    recording: TritonRecording,
    raised: list[BaseException],
    most: int,
) -> None:
    """Serve ``most`` launches, one after the other, until the socket is shut; others go on."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        # Closing a file whose other end is gone raises, too.
        with suppress(OSError), connection, connection.makefile("rw", encoding="utf-8") as file:
            told = json.loads(file.readline() or "{}")
            if "launch" not in told:
                recording.refused += [str(told["refused"])] if "refused" in told else []
                continue
            if not raised and recording.served < most:  # of several ranks one is enough
                try:
                    serve(TritonLaunch(told["launch"], file))
                    recording.served += 1
                except BaseException as error:
                    raised.append(error)
            file.write('{"do": "end"}\n')  # the program goes on
            file.flush()
