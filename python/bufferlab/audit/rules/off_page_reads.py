"""Finds reads that begin inside a page: nearly each touches one page more than its size needs.

A buffered read of n sectors at a random sector touches 1 + (n - 1) / 8 pages of 4 KiB on average. Without read-ahead
each page is a request. So 8 KiB take 2.875 requests and 16 KiB take 4.875.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.blkparse import PAGE_SECTORS, BlockTraceText, Seen

NAME = "off-page-reads"
_SHARE = 0.2


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each device whose reads often begin inside a page."""
    for evidence in case.files:
        for trace in evidence.traces:
            for device, seen in trace.seen.items():
                if seen.reads and seen.off_page >= _SHARE * seen.reads:
                    yield _finding(trace, device, seen, seen.reads)


def _finding(trace: BlockTraceText, device: str, seen: Seen, reads: int) -> Finding:
    sectors = seen.read_sectors / reads
    expected = 1 + (sectors - 1) / PAGE_SECTORS
    return Finding(
        NAME,
        trace.place,
        f"{seen.off_page:,} of {reads:,} reads of {device} begin inside a page of 4 KiB",
        "buffered, such a read touches more pages than its size has; without read-ahead each of them is a request",
        f"{seen.pages / reads:.2f} pages a read here; at random sectors {expected:.3f} are to be expected for"
        f" {sectors / 2:g} KiB, aligned {max(1.0, sectors / PAGE_SECTORS):g}",
        {"reads": reads, "off_page": seen.off_page, "pages_per_read": seen.pages / reads, "expected": expected},
    )


RULE = Rule(NAME, "Do reads begin where pages do?", check)
