"""A cubin as an ELF file: its sections, and one hash of the machine code in it."""

from __future__ import annotations

import hashlib

from ncubble.errors import UsageError
from ncubble.sass.elf import sections as read_sections

_CODE = (".text", ".nv.constant", ".nv.global", ".nv.info", ".nv.shared", ".rodata")
"""Sections of a cubin that affect a launch. Others hold names, line numbers and paths."""


def code_hash(cubin: bytes) -> str:
    """SHA-256 over those sections of ``cubin`` (ELF, 64 bits, little-endian) that a launch depends
    on.

    The cubin itself is another one wherever its source lies in another folder: line information
    holds the path. Raises UsageError for what is no cubin.
    """
    digest = hashlib.sha256()
    contents = sorted((name, data) for name, data in sections(cubin) if name.startswith(_CODE))
    for name, data in contents:
        digest.update(f"{name.split('.')[1]} {len(data)}\0".encode() + data)
    if not any(name.startswith(".text") for name, _ in contents):
        raise UsageError("the cubin has no code", "build the kernel again")
    return digest.hexdigest()


def sections(elf: bytes) -> list[tuple[str, bytes]]:
    """Name and content of each section of an ELF file; raises UsageError for what is none."""
    try:
        return [(part.name, elf[part.offset : part.offset + part.size]) for part in read_sections(elf)]
    except ValueError as error:
        raise UsageError(f"not an ELF file of 64 bits ({error})", "build the kernel again") from error
