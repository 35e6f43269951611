"""The audit's rules, in the order in which findings are shown. To add one, add a function here below and a line."""

from __future__ import annotations

from bufferlab.audit.case import Rule
from bufferlab.audit.rules import (
    block_trace,
    completeness,
    iostat,
    load_run,
    per_new_order,
    set_up,
    status,
    tables,
    tpcc_log,
    tpmc,
)

RULES: tuple[Rule, ...] = (
    Rule("response-limits", "Do the response-time limits mean what they say?", tpcc_log.response_limits),
    Rule("tpmc-counts", "Is TpmC the New-Orders counted over the time they were counted in?", tpmc.tpmc_counts),
    Rule(
        "totals-agree", "Do interval lines, totals and percentages count the same transactions?", tpcc_log.totals_agree
    ),
    Rule("above-maximum", "Are percentiles below the maximum?", tpcc_log.above_maximum),
    Rule("latency-order", "Are latencies in order, from the least to the greatest?", load_run.latency_order),
    Rule("load-totals", "Do a load generator's totals follow from its counts?", load_run.load_totals),
    Rule("in-flight", "Are no more transactions in flight than there are clients?", load_run.in_flight),
    Rule("clients-lost", "Did all clients last until the end?", load_run.clients_lost),
    Rule("time-order", "Do lines and printouts stand in time's order?", status.time_order),
    Rule("missing-lines", "Is there a line for every interval?", completeness.missing_lines),
    Rule("same-file-twice", "Is each file another one?", completeness.same_file_twice),
    Rule("cold-start", "Had throughput settled when counting began?", tpcc_log.cold_start),
    Rule("minute-by-second", "Are rates per second divided by rates per second?", per_new_order.minute_by_second),
    Rule("counters-as-rates", "Are rates per second rates?", status.counters_as_rates),
    Rule("payment-quoted", "Are quoted throughputs New-Order's?", tables.payment_quoted),
    Rule("pool-asked", "Did the pool that was asked for run?", set_up.pool_asked),
    Rule("page-size-ran", "Did the page size that is said run?", set_up.page_size_ran),
    Rule("instances-ran", "Did the number of instances that is said run?", set_up.instances_ran),
    Rule("set-up-said", "Did the warehouses, connections and seconds that are said run?", set_up.set_up_said),
    Rule("rounded-sizes", "Would a server run the sizes asked for?", set_up.rounded_sizes),
    Rule("shares-of-what", "Do shares add up to one whole?", tables.shares_of_what),
    Rule("spot-samples", "Do a few samples say what the counters say?", iostat.spot_samples),
    Rule("boot-average", "Is the average since the start of the system taken for a sample?", iostat.boot_average),
    Rule("sectors-as-kib", "Are columns of kilobytes kilobytes?", iostat.sectors_as_kib),
    Rule("request-sizes", "Are bytes the requests times their size?", iostat.request_sizes),
    Rule("busy-above-whole", "Was a device busy for no more than the whole time?", iostat.busy_above_whole),
    Rule("littles-law", "Is the queue the requests times their waits?", iostat.littles_law),
    Rule("counters-fall", "Do counters only grow?", status.counters_fall),
    Rule("pages-in-pool", "Does the pool hold no more pages than it has?", status.pages_in_pool),
    Rule("idle-rates", "Do printed rates agree with the counters above them?", status.idle_rates),
    Rule("floored-hit-ratio", "How well is the hit ratio known?", per_new_order.floored_hit_ratio),
    Rule(
        "gets-per-new-order",
        "Do hit ratio, reads and throughput agree with each other?",
        per_new_order.gets_per_new_order,
    ),
    Rule("tpmc-grid", "Can one run of the stated length give this TpmC?", tpmc.tpmc_grid),
    Rule("single-runs", "Is the best setting resolved from the next?", tables.single_runs),
    Rule("thousands-of-kib", "Are blkparse's sizes in the unit behind them?", block_trace.thousands_of_kib),
    Rule("off-page-reads", "Do reads begin where pages do?", block_trace.off_page_reads),
    Rule("queued-only", "Does the trace see completions?", block_trace.queued_only),
    Rule("unread-lines", "Could every line of a block trace be read?", block_trace.unread_lines),
)
