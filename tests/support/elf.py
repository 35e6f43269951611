"""Where a real program begins, for tests that need the place of an instruction."""

from __future__ import annotations

import struct
from pathlib import Path


def first_instruction(binary: Path) -> dict[str, int]:
    """The place in the file of a program's first instruction, which is longer than a byte, and its first byte."""
    code = binary.read_bytes()
    entry, headers = struct.unpack_from("<QQ", code, 24)
    size, number = struct.unpack_from("<HH", code, 54)
    for at in range(number):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", code, headers + at * size)
        if kind == 1 and address <= entry < address + length:
            return {"offset": offset + entry - address, "byte": code[offset + entry - address]}
    raise AssertionError(f"the code of {binary} is nowhere")
