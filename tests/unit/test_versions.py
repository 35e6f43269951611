"""Which versions have a feature: bounds, kinds of servers, and versions that are only known in part."""

from __future__ import annotations

import pytest

from bufferlab.versions import has, in_words, numbers

CLEANERS = "mysql >= 5.7.4; mariadb >= 10.2.2, < 10.5"


@pytest.mark.parametrize(
    ("versions", "flavour", "version", "there"),
    [
        ("", "mysql", "5.6.24", True),
        (CLEANERS, "mysql", "5.6.24", False),
        (CLEANERS, "mysql", "5.7.22-log", True),
        (CLEANERS, "mariadb", "10.2.11-MariaDB", True),
        (CLEANERS, "mariadb", "10.11.6-MariaDB-0+deb12u1", False),
        (CLEANERS, "mariadb", "11.4.5", False),
        (CLEANERS, "sqlite", "3.50", False),
        ("mysql; mariadb < 11.0", "mysql", "9.1", True),
        ("mysql < 8.0.30", "mysql", "8.0.15", True),
        ("mysql < 8.0.30", "mysql", "8.4.0", False),
        ("mysql >= 5.7.6", "mysql", "5.7", True),
        ("mysql >= 8.0, < 8.1; mysql >= 9.7, < 9.8", "mysql", "9.7.4", True),
        ("mysql >= 8.0, < 8.1; mysql >= 9.7, < 9.8", "mysql", "8.4.6", False),
        ("postgres < 19", "postgres", "19rc1", False),
    ],
)
def test_a_version_is_within_its_bounds_or_not(versions: str, flavour: str, version: str, there: bool) -> None:
    assert has(versions, flavour, version) is there


def test_versions_are_told_in_words() -> None:
    assert in_words(CLEANERS) == "MySQL 5.7.4 or later, and MariaDB from 10.2.2 to before 10.5"
    assert in_words("mysql; mariadb < 11.0") == "every MySQL, and MariaDB before 11.0"


def test_a_version_is_its_first_numbers() -> None:
    assert numbers("mysqld  Ver 5.7.22 for Linux") == (5, 7, 22)
    assert numbers("none") == ()


@pytest.mark.parametrize("text", ["5.7", "mysql > 5", "mysql >= ; mariadb"])
def test_what_is_not_of_the_form_is_a_fault_of_the_declaration(text: str) -> None:
    with pytest.raises(ValueError, match="is not versions"):
        in_words(text)
