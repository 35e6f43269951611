"""Metrics of random reads: asked for, covered, expected, done. Tables only.

Four words that must not be confused: logical reads (asked by the driver), pages touched (covered by their ranges),
pages first touched (of these, missing in the page cache), requests (asked of the device).
"""

from __future__ import annotations

from bufferlab.results.metrics import derived, raw

_SOURCE = "the driver of random reads, from its own offsets"
_CACHE_SOURCE = "mincore(2)"

_COUNTERS = """
logical_reads       | reads    | neither | reads that the driver asked for and got
logical_read_bytes  | bytes    | neither | bytes of these reads
pages_touched       | pages    | neither | 4 KiB pages that the reads covered, whole or in part
pages_first_touched | pages    | neither | of these, pages that were not in the page cache: a replay of the offsets over a set of cached pages
requests_expected   | requests | neither | requests the device must get: one a direct read; without read-ahead one for each page first touched
"""  # noqa: E501

_GAUGES = """
resident_pages | pages | neither | 4 KiB pages of the file in the page cache
"""

#: Rows as `derived` takes them: name | unit | kind | which way is better | title | meaning [| = formula].
_DERIVED = """
iops                         | reads/s       | ratio | higher  | Reads per second (IOPS)     | logical reads | = logical_reads / seconds
read_mb_per_s                | MB/s          | ratio | higher  | MB read per second          | logical bytes, in millions | = logical_read_bytes / seconds
requests_per_read            | requests/read | ratio | lower   | Device requests per read    | read requests the device completed | = device_reads / logical_reads
requests_expected_per_read   | requests/read | ratio | neither | Expected requests per read  | from the offsets themselves | = requests_expected / logical_reads
requests_over_expected       | 1             | ratio | neither | Requests over expected      | device requests over those expected | = device_reads / requests_expected
pages_touched_per_read       | pages/read    | ratio | neither | Pages touched per read      | covered, whole or in part | = pages_touched / logical_reads
pages_first_touched_per_read | pages/read    | ratio | neither | Pages missed per read       | touched and not cached | = pages_first_touched / logical_reads
logical_bytes_per_read       | bytes/read    | ratio | neither | Bytes asked per read        | of the file | = logical_read_bytes / logical_reads
device_bytes_per_read        | bytes/read    | ratio | lower   | Device bytes per read       | read by the device | = device_read_bytes / logical_reads
read_amplification           | 1             | ratio | lower   | Amplification               | device bytes over bytes asked for | = device_read_bytes / logical_read_bytes
reads_cv                     | 1             | ratio | lower   | Dispersion of reads         | coefficient of variation of reads per second between neighbouring samples
reads_dispersion_index       | 1             | ratio | lower   | Dispersion index of reads   | variance over mean of the reads of a sample interval
requests_cv                  | 1             | ratio | lower   | Dispersion of requests      | coefficient of variation of device requests per second between neighbouring samples
"""  # noqa: E501

RAW = (*raw("engine", _SOURCE, "counter", _COUNTERS), *raw("engine", _CACHE_SOURCE, "gauge", _GAUGES))
DERIVED = tuple(derived(_DERIVED))
