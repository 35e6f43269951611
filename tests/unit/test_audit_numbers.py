"""Numbers of tables in every form in which people write them: read to the digit, or named as unread."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.audit.audit import audit_files
from bufferlab.audit.parsers.numbers import UnclearColumn, column_numbers
from bufferlab.audit.parsers.tables import ResultTable
from bufferlab.errors import DataFileError
from support.audit_files import audit_of, evidence_of


def table(text: str) -> ResultTable:
    (one,) = evidence_of(text).results
    return one


def rows(text: str, *roles: str) -> list[tuple[object, ...]]:
    """Return for each row the setting and the numbers of these roles."""
    return [
        (row.setting, *(number.value if (number := row.first(role)) else None for role in roles))
        for row in table(text).rows
    ]


def unread(text: str) -> list[str]:
    return [problem.what for problem in evidence_of(text).named]


def markdown(*lines: str) -> str:
    head, *others = lines
    ruler = "|".join("---" for _ in head.split("|"))
    return "\n".join(f"| {line} |" for line in (head, ruler, *others)) + "\n"


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        # A comma before other than three digits is decimal; points then separate thousands.
        (["950,4", "1210,2"], [950.4, 1210.2]),
        (["1.210,25", "12.345,5", "900"], [1210.25, 12345.5, 900]),
        (["0,968", "0,970"], [0.968, 0.970]),
        (["1,2", "1,200"], [1.2, 1.2]),
        (["1.200", "950,4"], [1200, 950.4]),
        # A comma before groups of three digits separates thousands, and then a point is decimal.
        (["1,200", "950"], [1200, 950]),
        (["1,234,567.5", "1,200"], [1234567.5, 1200]),
        (["1.200", "0.950"], [1.2, 0.95]),
        (["1.200", "12.5"], [1.2, 12.5]),
        # Letters, exponents, blanks, apostrophes.
        (["9.5k", "12.1k", "1.2M", "2G"], [9500, 12100, 1.2e6, 2e9]),
        (["9,5k", "12,1 k"], [9500, 12100]),
        (["20.4K IOPS", "12 kIOPS"], [20400, 12000]),
        (["1.2e4", "3E+2"], [12000, 300]),
        (["1 200", "12 345.5"], [1200, 12345.5]),
        (["12 044 tpm", "1 204 /s"], [12044, 1204]),
        (["1 539 671 k", "12 044*"], [1_539_671_000, 12044]),
        (["1'200.5", "12'345"], [1200.5, 12345]),
        ([".968", "1"], [0.968, 1]),
    ],
)
def test_a_column_has_one_form_by_all_its_cells(cells: list[str], values: list[float]) -> None:
    assert [number.value for (number,) in column_numbers(cells)] == pytest.approx(values)


@pytest.mark.parametrize("cells", [["1,5", "1.5"], ["1.200.000", "950"], ["1,234.5", "12,5"]])
def test_a_column_that_nothing_decides_is_refused(cells: list[str]) -> None:
    with pytest.raises(UnclearColumn):
        column_numbers(cells)


def test_an_undecided_column_follows_the_others_of_its_table() -> None:
    assert [one[0].value for one in column_numbers(["1,200", "900"], beside_commas=True)] == [1.2, 900]
    assert [one[0].value for one in column_numbers(["1.20", "900"], beside_commas=True)] == [1.2, 900]
    with pytest.raises(UnclearColumn, match=r"the point of 1\.200 may be decimal"):
        column_numbers(["1.200", "900"], beside_commas=True)


def test_a_letter_leaves_the_last_digits_unknown() -> None:
    ((one,),) = column_numbers(["12.1k"])
    assert (one.value, one.last_digit, str(one)) == (12100, 100, "12100")


@pytest.mark.parametrize("separator", [" | ", "\t", ";"])
def test_decimal_commas_are_read_however_columns_are_separated(separator: str) -> None:
    lines = ["w/s|TpmC|pool|r/s", "88,4|1.950,4|10%|322,6", "90,1|11.210,2|20%|251,3"]
    order = [[line.split("|")[at] for at in (2, 3, 1, 0)] for line in lines]
    text = "\n".join(separator.join(cells) for cells in order)
    text = markdown(*(" | ".join(cells) for cells in order)) if "|" in separator else text
    found = rows(text, "tpmc", "reads_per_s", "writes_per_s")
    assert found == [("10%", 1950.4, 322.6, 88.4), ("20%", 11210.2, 251.3, 90.1)]


def test_commas_that_split_a_row_of_a_csv_are_named() -> None:
    text = "pool,TpmC,r/s\n10%,950,4,322,6\n20%,1210,2,251,3\n40%,1433.8,120.9\n"
    assert rows(text, "tpmc", "reads_per_s") == [("40%", 1433.8, 120.9)]
    assert unread(text) == ["a row of 5 cells below a head of 3 is not read, and 1 more like it"]
    quoted = 'pool,TpmC,r/s\n10%,"950,4","322,6"\n20%,"1.210,2","251,3"\n'
    assert rows(quoted, "tpmc", "reads_per_s") == [("10%", 950.4, 322.6), ("20%", 1210.2, 251.3)]


def test_a_column_of_points_beside_one_of_commas_is_named_and_the_other_read() -> None:
    text = markdown("pool | TpmC | r/s", "10% | 1.200 | 322,6", "20% | 1.310 | 251,3")
    assert rows(text, "tpmc", "reads_per_s") == [("10%", None, 322.6), ("20%", None, 251.3)]
    assert unread(text) == [
        "column 'TpmC' is not read: the point of 1.200 may be decimal, or separate thousands",
    ]
    alone = markdown("pool | TpmC | r/s", "10% | 1.200 | 322.6", "20% | 1.310 | 251.3")
    assert rows(alone, "tpmc") == [("10%", 1.2), ("20%", 1.31)]


def test_a_file_with_nothing_but_an_unread_column_is_refused_by_that_name(tmp_path: Path) -> None:
    path = tmp_path / "results.md"
    path.write_text(markdown("pool | TpmC", "10% | 1.200.000", "20% | 1.310.000"))
    with pytest.raises(DataFileError, match=r"column 'TpmC' is not read: 1\.200\.000 has points for thousands"):
        audit_files([path])


@pytest.mark.parametrize(
    ("cell", "numbers"),
    [
        ("12 044 ± 120", (12044, 120)),
        ("12 044 (n=3)", (12044, 3)),
        ("12 044 [1]", (12044, 1)),
        ("1 539 671 (26.35%)", (1_539_671, 26.35)),
        # The groups are separate numbers, since the row has more numbers than columns.
        ("12 044 95", (12, 44, 95)),
        ("12 0445", (12, 445)),
    ],
)
def test_blanks_between_thousands_end_where_something_else_begins(cell: str, numbers: tuple[float, ...]) -> None:
    (found,) = column_numbers([cell])
    assert tuple(number.value for number in found) == numbers


def test_rows_named_by_words_are_rows_whatever_stands_behind_their_numbers() -> None:
    text = markdown("variant | NOPM | r/s", "small | 12 044 ± 120 | 1 204 /s", "large | 15,990 [2] | 802 / s")
    assert rows(text, "tpmc", "reads_per_s") == [("small", 12044, 1204), ("large", 15990, 802)]


def test_runs_in_columns_are_runs_of_one_setting() -> None:
    text = markdown(
        "pool | Run 1 TpmC | Run 2 TpmC | Run 3 TpmC | r/s",
        "1 GiB | 12010 | 12055 | 11990 | 1204",
        "2 GiB | 12110 | 12040 | 12090 | 802",
    )
    assert rows(text, "tpmc", "reads_per_s") == [
        ("1 GiB", pytest.approx(36055 / 3, abs=0.01), 1204),
        ("2 GiB", pytest.approx(36240 / 3, abs=0.01), 802),
    ]
    (best,) = [finding for finding in audit_of(text).findings if finding.rule == "single-runs"]
    assert best.numbers["runs"] == 3
    apart = text.replace("| 12110 | 12040 | 12090 |", "| 14110 | 14040 | 14090 |")
    assert audit_of(apart).findings == ()


def test_the_grid_of_one_run_is_asked_of_each_run_and_not_of_their_mean() -> None:
    text = "run time: 600 s\n\n" + markdown(
        "pool | TpmC run 1 | TpmC run 2", "10% | 9500.1 | 9500.2", "20% | 9700.1 | 9700.4"
    )
    assert not [finding for finding in audit_of(text).findings if finding.rule == "tpmc-grid"]
    off = text.replace("9500.1", "9500.13").replace("9500.2", "9500.17").replace("9700.1", "9700.13")
    assert len([finding for finding in audit_of(off).findings if finding.rule == "tpmc-grid"]) == 1


@pytest.mark.parametrize(
    "head",
    [
        "TpmC in k", "TpmC (thousands)", "TpmC [thousand]", "Thousands of NOPM", "TpmC ×1000", "TpmC x 1000",
        "TpmC (x1,000)", "TpmC (in thousands)", "TpmC (1000s)",
        "TpmC in 1000s", "TpmC [k]", "TpmC ('000)", "TpmC (000s)", "TpmC (10^3)", "TpmC × 10³", "NOPM/1000", "TpmC, k",
        "TpmC, thousands", "k NOPM", "TpmC (1000 tpm)", "TpmC (k/min)", "TpmC (1e3)",
    ],
)  # fmt: skip
def test_a_multiplier_in_the_head_counts_in_every_spelling(head: str) -> None:
    text = markdown(f"pool | {head} | r/s", "10% | 9.5 | 3225.5", "20% | 12.1 | 2512.5")
    assert rows(text, "tpmc") == [("10%", 9500), ("20%", 12100)]


@pytest.mark.parametrize(
    ("head", "value"),
    [("kr/s", 1204), ("r/s in K", 1204), ("k reads/s", 1204), ("kIOPS", 1204), ("ktps", 1204), ("r/s (M)", 1_204_000)],
)
def test_a_letter_before_a_rate_counts_as_before_a_throughput(head: str, value: float) -> None:
    text = markdown(f"pool | TpmC | {head}", "10% | 9500 | 1.204", "20% | 12100 | 1.204")
    (role,) = table(text).roles - {"tpmc"}
    assert rows(text, role) == [("10%", value), ("20%", value)]


@pytest.mark.parametrize(
    "head",
    [
        "TpmC, 1000 warehouses", "TpmC (1000 WH)", "TpmC of 10 million rows", "TpmC (16 x 1 GB)", "TpmC at x 10",
        "Medium M TpmC", "TpmC, 10M rows", "TpmC in Germany", "TpmC, k=3",
    ],
)  # fmt: skip
def test_a_setting_in_the_head_multiplies_nothing(head: str) -> None:
    text = markdown(f"pool | {head} | r/s", "10% | 9.5 | 3225.5", "20% | 12.1 | 2512.5")
    assert rows(text, "tpmc") == [("10%", 9.5), ("20%", 12.1)]


@pytest.mark.parametrize("head", ["TpmC (1000)", "TpmC × 10^-3", "TpmC thousand WH", "TpmC x1000 rows"])
def test_a_head_that_may_multiply_is_named_and_its_column_is_not_read(head: str) -> None:
    text = markdown(f"pool | {head} | r/s", "10% | 9.5 | 3225.5", "20% | 12.1 | 2512.5")
    assert rows(text, "tpmc", "reads_per_s") == [("10%", None, 3225.5), ("20%", None, 2512.5)]
    assert unread(text) == [f"column {head!r} is not read: its head may be a multiplier of its numbers, or a setting"]


@pytest.mark.parametrize("head", ["TpmC (k)", "TpmC [K]", "kTpmC", "TpmC in thousands"])
def test_a_letter_in_the_head_counts_for_each_cell(head: str) -> None:
    text = markdown(f"pool | {head} | r/s", "10% | 9.5 | 3225.5", "20% | 12.1 | 2512.5")
    assert rows(text, "tpmc") == [("10%", 9500), ("20%", 12100)]


def test_letters_behind_numbers_are_no_finding() -> None:
    """The letters after 20 and 12 reads of a New-Order do not mean thousands."""
    for cells in (("9.5k", "12.1k"), ("9,5k", "12,1k"), ("9 500", "12 100"), ("9.5e3", "12.1e3")):
        text = markdown("pool | TpmC | r/s", f"10% | {cells[0]} | 3225", f"20% | {cells[1]} | 2512")
        assert audit_of(text).findings == (), cells
        assert rows(text, "tpmc") == [("10%", 9500), ("20%", 12100)]


@pytest.mark.parametrize(
    ("head", "cells", "percent"),
    [
        ("hit ratio", ("0.968", "0.981"), [96.8, 98.1]),
        ("hit ratio", ("0,968", "1"), [96.8, 100]),
        ("hit", (".968", ".9"), [96.8, 90]),
        ("hit ratio %", ("0.968", "0.981"), [0.968, 0.981]),
        ("hit ratio", ("0.968 %", "0.981 %"), [0.968, 0.981]),
        ("hit ratio", ("0.968", "98.1"), [0.968, 98.1]),
    ],
)
def test_hit_ratios_are_fractions_where_all_cells_are_and_nothing_says_per_cent(
    head: str, cells: tuple[str, str], percent: list[float]
) -> None:
    text = markdown(f"pool | {head} | TpmC", f"10% | {cells[0]} | 1200.5", f"20% | {cells[1]} | 1300.5")
    assert [value for _, value in rows(text, "hit")] == pytest.approx(percent)


def test_fractions_are_held_against_reads_and_throughput() -> None:
    text = markdown(
        "pool | TpmC | r/s | hit ratio", "15% | 1020.5 | 372.4 | 0.968", "30% | 1315.5 | 281.1 | 0.981",
        "60% | 1610.5 | 130.8 | 0.970",
    )  # fmt: skip
    (one,) = audit_of(text).findings
    assert one.rule == "gets-per-new-order"
    assert one.numbers["gets_per_new_order"] == pytest.approx([684.2, 674.8, 162.4], abs=0.1)


@pytest.mark.parametrize(
    "text",
    [
        "pool      r/s      TpmC     w/s\n256 MB    322.6    950.4    88.4\n512 MB    251.3    1210.2   90.1\n",
        "pool r/s TpmC w/s\n256 MB 322.6 950.4 88.4\n512 MB 251.3 1210.2 90.1\n",
        "pool    r/s  TpmC  w/s\n------  ---  ----  ---\n256 MB  322.6  950.4  88.4\n512 MB  251.3  1 210.2  90.1\n",
        "pool  r/s  TpmC  w/s\n256 MB  322.6/s  950.4  88.4\n512 MB  251.3/s  1\u00a0210.2  90.1\n",
    ],
)
def test_a_unit_apart_shifts_no_column(text: str) -> None:
    assert rows(text, "reads_per_s", "tpmc", "writes_per_s") == [
        ("256 MB", 322.6, 950.4, 88.4),
        ("512 MB", 251.3, 1210.2, 90.1),
    ]


def test_a_row_of_columns_held_apart_by_spaces_that_lacks_a_cell_is_named() -> None:
    text = "pool  r/s  TpmC  w/s\n10%  322.6  950.4  88.4\n20%  251.3  90.1\n40%  120.9  1433.8  91.7\n"
    assert [setting for setting, *_ in rows(text, "tpmc")] == ["10%", "40%"]
    assert unread(text) == ["a row of 3 cells below a head of 4 is not read"]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("TpmC,r/s,w/s\n1020.5,372.4,85.3\n1315.5,281.1,86.6\n", ["row 1", "row 2"]),
        ("r/s\tTpmC\n372.4\t1020.5\n281.1\t1315.5\n", ["row 1", "row 2"]),
        (markdown("NOPM | r/s", "1020.5 | 372.4", "1315.5 | 281.1"), ["row 1", "row 2"]),
        ("TpmC;pool;r/s\n1020,5;10%;372,4\n1315,5;20%;281,1\n", ["row 1", "row 2"]),
    ],
)
def test_throughput_in_the_first_column_is_no_setting(text: str, settings: list[str]) -> None:
    assert rows(text, "tpmc", "reads_per_s") == [(settings[0], 1020.5, 372.4), (settings[1], 1315.5, 281.1)]


@pytest.mark.parametrize(
    "text",
    [
        "| | 15% | 30% |\n|---|---|---|\n| TpmC | 1020.5 | 1315.5 |\n| r/s | 372.4 | 281.1 |\n",
        ",15%,30%\nTpmC,1020.5,1315.5\nr/s,372.4,281.1\n",
        "pool,15%,30%\nr/s,372.4,281.1\nTpmC,1020.5,1315.5\n",
        ";15%;30%\nTpmC;1020,5;1315,5\nr/s;372,4;281,1\n",
        "\t15%\t30%\nTpmC\t1020.5\t1315.5\nr/s\t372.4\t281.1\n",
        "      15%     30%\nTpmC  1020.5  1315.5\nr/s   372.4   281.1\n",
        "pool  15%     30%\nTpmC  1020.5  1315.5\nr/s   372.4   281.1\n",
    ],
)
def test_a_table_on_its_side_needs_no_word_in_its_corner(text: str) -> None:
    assert rows(text, "tpmc", "reads_per_s") == [("15%", 1020.5, 372.4), ("30%", 1315.5, 281.1)]
    assert unread(text) == []


@pytest.mark.parametrize("text", ["Buffer Size,TpmC\n128M,1020.5\n256M,1315.5\n", "pool;tps;hit ratio\n1G;900,5;0,9\n"])
def test_a_table_with_one_known_column_is_one(text: str) -> None:
    assert len(table(text).rows) == text.count("\n") - 1


@pytest.mark.parametrize(
    "text",
    [
        "              min  mean[+/-sd] median   max\n"
        "Connect:        0    0   0.1      0       2\nTotal:  1  3  1.1  3  41\n",
        "            ALL           MIN           AVG           MAX           N\n"
        "--------------- ------------- ------------- ------------- -----------\n"
        "Q2Qdm             0.000053277   0.000497586   0.000899212         399\n",
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   635.91us    0.89ms  12.92ms   93.69%\n",
        "name,min,max,runs\na,1,2,3\nb,2,3,4\n",
        "Of TpmC, of r/s, and of w/s nothing is known.\nThere were 3, or 4.\n",
    ],
)
def test_columns_that_mean_nothing_to_a_rule_are_no_table_of_results(text: str) -> None:
    assert evidence_of(text).results == []
    assert not evidence_of(text).measured


def test_cells_of_a_table_by_tabs_may_stand_in_quotes() -> None:
    plain = "pool\\tTpmC\\tr/s\\n128MB\\t2412.5\\t880\\n256MB\\t2600\\t410\\n".replace("\\t", "\t").replace("\\n", "\n")
    quoted = "\n".join("\t".join(f'"{cell}"' for cell in line.split("\t")) for line in plain.splitlines()) + "\n"
    for text in (plain, quoted):
        found = [row.first("tpmc") for row in table(text).rows]
        assert [number.value for number in found if number] == [2412.5, 2600.0]
