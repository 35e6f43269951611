"""How the text of a mysqldump is split, compared with a naive reader, in pieces of any size and for hostile texts."""

from __future__ import annotations

import io
import time
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bufferlab.engines.innodb import dump_text
from bufferlab.engines.innodb.dump_rules import Rules
from bufferlab.engines.innodb.dump_text import DumpStatement, DumpTextError, Splitter

VERSION = 50722


class Pieces(io.BytesIO):
    """A file that returns only a few bytes at a time."""

    def __init__(self, text: bytes, most: int) -> None:
        super().__init__(text)
        self.most = most

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.most)


def split(text: bytes, *, most: int = 1 << 20, flavour: str = "mysql", version: int = VERSION) -> list[DumpStatement]:
    return list(Splitter(Pieces(text, most), flavour, version))  # type: ignore[arg-type]


def texts(text: bytes, **more: object) -> list[bytes]:
    return [b" ".join(one.text.split()) for one in split(text, **more)]  # type: ignore[arg-type]


class Broken(Exception):
    """The error of the naive reader."""


def naive(text: bytes) -> list[bytes]:
    """Return the statements of a text, found byte by byte."""
    found: list[bytes] = []
    now, delimiter, opened, at = b"", b";", 0, 0
    while at < len(text):
        rest = text[at:]
        if not now.strip() and not opened and rest[:10].lower() in (b"delimiter ", b"delimiter\t"):
            line = rest.split(b"\n", 1)[0]
            words = line[10:].split()
            if words:
                if words[0] not in (b";", b";;"):
                    raise Broken("delimiter")
                delimiter, at = words[0], at + len(line)
                continue
        if rest.startswith(delimiter) and not opened:
            found.append(now)
            now, at = b"", at + len(delimiter)
        elif rest[:1] in (b"'", b'"', b"`"):
            quote, end = rest[:1], 1
            while rest[end : end + 1] != quote:
                end += 2 if rest[end : end + 1] == b"\\" and quote != b"`" else 1
                if end >= len(rest):
                    raise Broken("quote")
            now, at = now + rest[: end + 1], at + end + 1
        elif rest[:2] == b"/*":
            version = rest[3:8] if rest[2:3] == b"!" else None
            if version is not None and (not version.isdigit() or len(version) < 5 or int(version) <= VERSION):
                opened, now = opened + 1, now + b" "
                at += 8 if version.isdigit() and len(version) == 5 else 3
            else:
                end = rest.find(b"*/", 2)
                if end < 0:
                    raise Broken("comment")
                now, at = now + b" ", at + end + 2
        elif rest[:2] == b"*/":
            if not opened:
                raise Broken("end of a comment")
            opened, now, at = opened - 1, now + b" ", at + 2
        elif rest[:1] == b"#" or (rest[:2] == b"--" and (len(rest) == 2 or rest[2] <= 32)):
            now, at = now + b" ", at + len(rest.split(b"\n", 1)[0])
        elif rest[:1] == b"\\":
            raise Broken("backslash")
        elif rest[:2] == b"--":
            now, at = now + b"- ", at + 1
        else:
            now, at = now + rest[:1], at + 1
    if opened or now.strip():
        raise Broken("end")
    return [one for one in found if one.strip()]


FRAGMENTS = st.sampled_from(
    [b"a", b" ", b"\n", b";", b";;", b"'", b'"', b"`", b"\\", b"--", b"-- ", b"#", b"/*", b"*/", b"/*!50003 ",
     b"/*!99999", b"/*!", b"DELIMITER ;;\n", b"\ndelimiter ;\n", b"SELECT 1", b"'it''s; \\' -- '", b"`a;``b`", b"*",
     b"/", b"-", b"\xc3\xa9", b"\x00", b"5--3", b"!50003"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(FRAGMENTS, max_size=24).map(b"".join), st.integers(1, 40))
@example(b"-- c\nDELIMITER ;;\nSELECT 1; END ;;\ndelimiter ;\n", 3)
@example(b"/*!99999 ' */ SELECT 1; -- ' */", 1)
@example(b"SELECT 5--/**/3;", 2)
@example(b"DELIMITER ;; " + b"b" * 300 + b"\nSELECT 1; END ;;", 40)
def test_text_is_split_as_a_naive_reader_splits_it_in_whatever_pieces_it_comes(text: bytes, most: int) -> None:
    try:
        expected = naive(text)
    except Broken:
        with pytest.raises(DumpTextError):
            split(text, most=most)
        return
    assert [one.text.strip() for one in split(text, most=most)] == [one.strip() for one in expected]


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.lists(FRAGMENTS, max_size=30).map(b"".join)))
def test_no_text_does_more_than_be_refused_and_nothing_that_is_sent_holds_a_comment(text: bytes) -> None:
    rules = Rules()
    with suppress(DumpTextError):
        for statement in Splitter(io.BytesIO(text), "mariadb", 101106):
            judged = rules.judge(statement)
            assert judged is None or not naive_comment(judged[1])


def naive_comment(text: bytes) -> bool:
    """Return whether a server that reads this text sees a comment."""
    try:
        return b" ".join(naive(text + b";")[0].split()) != b" ".join(text.split())
    except (Broken, IndexError):
        return True


def test_a_comment_of_a_version_is_opened_where_the_server_would_execute_it() -> None:
    old, new, maria = b"SELECT 1 /*!50700 , 2 */;", b"SELECT 1 /*!80000 , 2 */;", b"SELECT 1 /*M!100500 , 2 */;"
    assert texts(old) == [b"SELECT 1 , 2"]
    assert texts(new) == texts(maria) == [b"SELECT 1"]
    assert texts(new, version=80032) == [b"SELECT 1 , 2"]
    # MariaDB ignores comments for MySQL 5.7 and later.
    assert texts(old, flavour="mariadb", version=101106) == [b"SELECT 1"]
    assert texts(maria, flavour="mariadb", version=101106) == [b"SELECT 1 , 2"]
    assert texts(b"SELECT 1 /*M!110400 , 2 */;", flavour="mariadb", version=101106) == [b"SELECT 1"]


def test_a_statement_has_the_line_of_its_first_word() -> None:
    text = b"-- a\n\n/* b\n*/ SELECT '\n';\n/*!40101 SET NAMES utf8 */;\nDELIMITER ;;\n\nCREATE 1;\n2 ;;\n"
    assert [one.line for one in split(text)] == [4, 6, 9]


def test_a_dump_that_ends_inside_something_names_the_line() -> None:
    for text, what in (
        (b"a;\nSELECT 'x", "inside a string"),
        (b"a;\nSELECT `x", "inside a name"),
        (b"a;\nSELECT /* x", "inside a comment"),
        (b"a;\n/*!40101 SET NAMES utf8", "inside a comment"),
        (b"a;\nSELECT 1", "inside a statement"),
        (b"a;\n\\! id\n", "a backslash outside quotes"),
        (b"a;\nDELIMITER x\n", "DELIMITER with another word"),
        (b"a;\n*/", "a comment ends that did not begin"),
    ):
        with pytest.raises(DumpTextError, match=what) as raised:
            split(text)
        assert raised.value.line == 2
        assert raised.value.hint


@pytest.mark.parametrize("piece", [b";a", b"a/**/", b"a--a", b"/*!50003 a*/", b"'a'`a`\"a\""])
def test_a_statement_of_many_parts_takes_time_in_proportion(piece: bytes) -> None:
    before = time.process_time()
    (found,) = split(b"DELIMITER ;;\n" + piece * 100_000 + b";;\n")
    assert len(found.text) >= 100_000
    # It takes a fifth of a second; quadratic time in the number of parts would be minutes.
    assert time.process_time() - before < 10


def test_a_statement_of_any_length_takes_no_more_memory_than_the_longest_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_text, "MOST_STATEMENT_BYTES", 4 << 20)
    read = 0

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            nonlocal read
            read += size
            return b"('x')," * (size // 6 + 1)

    with pytest.raises(DumpTextError, match="more than 4 MiB"):
        list(Splitter(Endless(), "mysql", VERSION))  # type: ignore[arg-type]
    assert read < 20 << 20
