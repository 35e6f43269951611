"""The audit's rules, in the order in which findings are shown.

To add a rule, add a line here, and to the rule's module a function with the rule's name and an entry in JUDGES.
"""

from __future__ import annotations

from bufferlab.audit.case import AuditRule

RULES: tuple[AuditRule, ...] = (
    AuditRule("response-limits", "Do the response-time limits mean what they say?", "tpcc_log"),
    AuditRule("tpmc-counts", "Is TpmC the New-Orders counted over the time they were counted in?", "tpmc"),
    AuditRule("totals-agree", "Do interval lines, totals and percentages count the same transactions?", "tpcc_log"),
    AuditRule("above-maximum", "Are percentiles below the maximum?", "tpcc_log"),
    AuditRule("latency-order", "Are latencies in order, from the least to the greatest?", "load_run"),
    AuditRule("load-totals", "Do a load generator's totals follow from its counts?", "load_run"),
    AuditRule("in-flight", "Are no more transactions in flight than there are clients?", "load_run"),
    AuditRule("clients-lost", "Did all clients last until the end?", "load_run"),
    AuditRule("time-order", "Do lines and printouts stand in time's order?", "status"),
    AuditRule("missing-lines", "Is there a line for every interval?", "completeness"),
    AuditRule("same-file-twice", "Is each file another one?", "completeness"),
    AuditRule("cold-start", "Had throughput settled when counting began?", "tpcc_log"),
    AuditRule("minute-by-second", "Are rates per second divided by rates per second?", "per_new_order"),
    AuditRule("counters-as-rates", "Are rates per second rates?", "status"),
    AuditRule("payment-quoted", "Are quoted throughputs New-Order's?", "tables"),
    AuditRule("pool-asked", "Did the pool that was asked for run?", "set_up"),
    AuditRule("page-size-ran", "Did the page size that is said run?", "set_up"),
    AuditRule("instances-ran", "Did the number of instances that is said run?", "set_up"),
    AuditRule("set-up-said", "Did the warehouses, connections and seconds that are said run?", "set_up"),
    AuditRule("rounded-sizes", "Would a server run the sizes asked for?", "set_up"),
    AuditRule("shares-of-what", "Do shares add up to one whole?", "tables"),
    AuditRule("spot-samples", "Do a few samples say what the counters say?", "iostat"),
    AuditRule("boot-average", "Is the average since the start of the system taken for a sample?", "iostat"),
    AuditRule("sectors-as-kib", "Are columns of kilobytes kilobytes?", "iostat"),
    AuditRule("request-sizes", "Are bytes the requests times their size?", "iostat"),
    AuditRule("busy-above-whole", "Was a device busy for no more than the whole time?", "iostat"),
    AuditRule("littles-law", "Is the queue the requests times their waits?", "iostat"),
    AuditRule("counters-fall", "Do counters only grow?", "status"),
    AuditRule("pages-in-pool", "Does the pool hold no more pages than it has?", "status"),
    AuditRule("idle-rates", "Do printed rates agree with the counters above them?", "status"),
    AuditRule("floored-hit-ratio", "How well is the hit ratio known?", "per_new_order"),
    AuditRule(
        "gets-per-new-order",
        "Do hit ratio, reads and throughput agree with each other?",
        "per_new_order",
    ),
    AuditRule("tpmc-grid", "Can one run of the stated length give this TpmC?", "tpmc"),
    AuditRule("single-runs", "Is the best setting resolved from the next?", "tables"),
    AuditRule("thousands-of-kib", "Are blkparse's sizes in the unit behind them?", "block_trace"),
    AuditRule("off-page-reads", "Do reads begin where pages do?", "block_trace"),
    AuditRule("queued-only", "Does the trace see completions?", "block_trace"),
    AuditRule("unread-lines", "Could every line of a block trace be read?", "block_trace"),
)
