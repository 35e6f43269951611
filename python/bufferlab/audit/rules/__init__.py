"""The audit's rules, in the order in which findings are shown.

To add one, add a line here, and to its module a function of its name and an entry of JUDGES.
"""

from __future__ import annotations

from bufferlab.audit.case import Rule

RULES: tuple[Rule, ...] = (
    Rule("response-limits", "Do the response-time limits mean what they say?", "tpcc_log"),
    Rule("tpmc-counts", "Is TpmC the New-Orders counted over the time they were counted in?", "tpmc"),
    Rule("totals-agree", "Do interval lines, totals and percentages count the same transactions?", "tpcc_log"),
    Rule("above-maximum", "Are percentiles below the maximum?", "tpcc_log"),
    Rule("latency-order", "Are latencies in order, from the least to the greatest?", "load_run"),
    Rule("load-totals", "Do a load generator's totals follow from its counts?", "load_run"),
    Rule("in-flight", "Are no more transactions in flight than there are clients?", "load_run"),
    Rule("clients-lost", "Did all clients last until the end?", "load_run"),
    Rule("time-order", "Do lines and printouts stand in time's order?", "status"),
    Rule("missing-lines", "Is there a line for every interval?", "completeness"),
    Rule("same-file-twice", "Is each file another one?", "completeness"),
    Rule("cold-start", "Had throughput settled when counting began?", "tpcc_log"),
    Rule("minute-by-second", "Are rates per second divided by rates per second?", "per_new_order"),
    Rule("counters-as-rates", "Are rates per second rates?", "status"),
    Rule("payment-quoted", "Are quoted throughputs New-Order's?", "tables"),
    Rule("pool-asked", "Did the pool that was asked for run?", "set_up"),
    Rule("page-size-ran", "Did the page size that is said run?", "set_up"),
    Rule("instances-ran", "Did the number of instances that is said run?", "set_up"),
    Rule("set-up-said", "Did the warehouses, connections and seconds that are said run?", "set_up"),
    Rule("rounded-sizes", "Would a server run the sizes asked for?", "set_up"),
    Rule("shares-of-what", "Do shares add up to one whole?", "tables"),
    Rule("spot-samples", "Do a few samples say what the counters say?", "iostat"),
    Rule("boot-average", "Is the average since the start of the system taken for a sample?", "iostat"),
    Rule("sectors-as-kib", "Are columns of kilobytes kilobytes?", "iostat"),
    Rule("request-sizes", "Are bytes the requests times their size?", "iostat"),
    Rule("busy-above-whole", "Was a device busy for no more than the whole time?", "iostat"),
    Rule("littles-law", "Is the queue the requests times their waits?", "iostat"),
    Rule("counters-fall", "Do counters only grow?", "status"),
    Rule("pages-in-pool", "Does the pool hold no more pages than it has?", "status"),
    Rule("idle-rates", "Do printed rates agree with the counters above them?", "status"),
    Rule("floored-hit-ratio", "How well is the hit ratio known?", "per_new_order"),
    Rule(
        "gets-per-new-order",
        "Do hit ratio, reads and throughput agree with each other?",
        "per_new_order",
    ),
    Rule("tpmc-grid", "Can one run of the stated length give this TpmC?", "tpmc"),
    Rule("single-runs", "Is the best setting resolved from the next?", "tables"),
    Rule("thousands-of-kib", "Are blkparse's sizes in the unit behind them?", "block_trace"),
    Rule("off-page-reads", "Do reads begin where pages do?", "block_trace"),
    Rule("queued-only", "Does the trace see completions?", "block_trace"),
    Rule("unread-lines", "Could every line of a block trace be read?", "block_trace"),
)
