"""Finds the first instructions of real programs, for tests that need an instruction's offset in a file."""

from __future__ import annotations

import struct
from pathlib import Path

_SYMTAB, _DYNSYM = 2, 11
"""Types of ELF sections that hold symbols."""


def first_instruction(binary: Path) -> dict[str, int]:
    """Return the file offset of a program's first instruction, which is longer than one byte, and its first byte."""
    code = binary.read_bytes()
    entry, headers = struct.unpack_from("<QQ", code, 24)
    size, number = struct.unpack_from("<HH", code, 54)
    for at in range(number):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", code, headers + at * size)
        if kind == 1 and address <= entry < address + length:
            return {"offset": offset + entry - address, "byte": code[offset + entry - address]}
    raise AssertionError(f"the code of {binary} is nowhere")


def entry(binary: Path, symbol: str) -> dict[str, int]:
    """Return the file offset of a function's first instruction, found by its symbol, and its first byte (elf(5))."""
    code = binary.read_bytes()
    (headers,) = struct.unpack_from("<Q", code, 40)
    size, number = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, headers + at * size) for at in range(number)]
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind not in (_SYMTAB, _DYNSYM):
            continue
        names = sections[link][4]
        wanted = code[names : names + sections[link][5]].find(b"\0" + symbol.encode() + b"\0") + 1
        for name, _, _, inside, address, _ in struct.iter_unpack("<IBBHQQ", code[offset : offset + length]):
            if wanted and name == wanted and 0 < inside < number:
                place = address - sections[inside][3] + sections[inside][4]
                return {"offset": place, "byte": code[place]}
    raise AssertionError(f"{binary} has no symbol {symbol}")
