"""Errors that users of ncubble may see: one base class and few subclasses, each with its exit code.

Exit codes: 0 ok, 1 regression or failed gate, 2 usage, 3 could not measure, 4 verification failed.
Library code raises; only ``ncubble.cli`` prints and exits.
"""

import errno

INTERRUPTED = 130
"""As in shells: 128 + SIGINT."""
_MEMORY = "not enough memory\n  remedy: free memory, or raise the limit (`ulimit -v`)"
_PROCESSES = "no further process or thread can be started\n  remedy: raise the limit (`ulimit -u`, `ulimit -v`)"
_SMALL = ("cannot allocate memory", "failed to map segment", "cannot apply additional memory")
"""What the loader of libraries says where memory is short, or with the word TLS, a table of its."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def lacking(error: BaseException) -> str:
    """What the machine lacks, with the remedy, where that explains ``error``; else empty."""
    if isinstance(error, OSError) and error.errno in _FULL:
        place = error.filename or "the output"
        return f"{place}: cannot be written ({error.strerror})\n  remedy: free disk space, or write elsewhere"
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return "standard output: is closed, and cannot be written\n  remedy: send what is not wanted to /dev/null"
    chain: BaseException | None = error
    while chain is not None:
        said = str(chain).lower()
        if (isinstance(chain, OSError) and chain.errno == errno.EAGAIN) or "can't start new thread" in said:
            return _PROCESSES
        # CPython's own word where an allocation failed inside of a C function.
        hidden = isinstance(chain, SystemError) and "error return without exception set" in said
        loader = any(words in said for words in _SMALL) and "static tls" not in said
        if (
            hidden
            or loader
            or isinstance(chain, MemoryError)
            or (isinstance(chain, OSError) and chain.errno == errno.ENOMEM)
        ):
            return _MEMORY
        chain = chain.__cause__ or chain.__context__
    return ""


class NcubbleError(Exception):
    """An error that a user can act on: what happened, the offending value, and the remedy."""

    exit_code = 3
    of_subject = False
    """Whether it says something of what was to be measured (it does not build, or launches
    nothing), and not of the request or the machine."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message


class GateError(NcubbleError):
    """A gate was evaluated and failed."""

    exit_code = 1


class UsageError(NcubbleError):
    """The request itself is wrong: unknown name, value out of range, conflicting options."""

    exit_code = 2


class MeasurementError(NcubbleError):
    """The request is fine, but nothing could be measured: no GPU, no permission, the program
    failed."""

    exit_code = 3


class ReportError(NcubbleError):
    """A report file is damaged, unreadable, or lacks the requested data."""

    exit_code = 3


class VerificationError(NcubbleError):
    """A kernel ran and its output is wrong."""

    exit_code = 4
