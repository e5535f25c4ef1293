"""What uploads are held to: sizes and numbers of files, and how a refusal is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncubble.errors import NcubbleError

MB = 1_000_000
ON_COMMAND_LINE = "ncubble dashboard PATH"


class UploadError(NcubbleError):
    """A refused file or piece: HTTP ``status``, and the bytes received so far."""

    def __init__(self, status: int, message: str, remedy: str = "", received: int = 0) -> None:
        super().__init__(message, remedy)
        self.status, self.received = status, received


@dataclass(frozen=True)
class UploadLimits:
    """Limits: bytes of one file (0: take none), number of files and bytes in all."""

    file_bytes: int = 512 * MB
    files: int = 64
    total_bytes: int = 4000 * MB

    @classmethod
    def of_megabytes(cls, megabytes: int) -> UploadLimits:
        """The limits where a file may have so many MB; the total grows with them."""
        return cls(megabytes * MB, total_bytes=max(cls.total_bytes, megabytes * MB))

    def check(self, size: int, kept: Sequence[int]) -> None:
        """Raise UploadError where a file of ``size`` bytes is not taken beside those of the sizes
        ``kept``."""
        held, remedy = sum(kept), "remove some files in the list below"
        if not self.file_bytes:
            raise UploadError(
                403, "this server does not accept files", f"open them on the command line: {ON_COMMAND_LINE}"
            )
        if size <= 0:
            raise UploadError(422, "the file is empty", "profile again, or copy the file again")
        if size > self.file_bytes:
            raise UploadError(
                413,
                f"too large: {megabytes(size)}, at most {megabytes(self.file_bytes)} are accepted",
                f"open it on the command line: {ON_COMMAND_LINE}, or raise the limit: --upload-limit MB",
            )
        if len(kept) >= self.files:
            raise UploadError(413, f"too many: {self.files} files are already kept", "remove some in the list below")
        if held + size > self.total_bytes:
            most = megabytes(self.total_bytes)
            raise UploadError(
                413, f"too much: together with the {megabytes(held)} already kept it would exceed {most}", remedy
            )


def megabytes(size: float) -> str:
    """A size in bytes as ``12.5 MB``, ``4 GB`` or ``3 kB``."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB")):
        if size >= scale:
            return f"{size / scale:.1f}".removesuffix(".0") + f" {unit}"
    return f"{max(1, round(size / 1e3))} kB" if size else "0 kB"
