"""Every rule of the audit, in the order their findings are shown. A new one is a file here and a line below."""

from __future__ import annotations

from bufferlab.audit.finding import Rule
from bufferlab.audit.rules import (
    boot_average,
    floored_hit_ratio,
    gets_per_new_order,
    idle_rates,
    minute_by_second,
    off_page_reads,
    payment_quoted,
    pool_asked,
    queued_only,
    response_limits,
    rounded_sizes,
    shares_of_what,
    single_runs,
    spot_samples,
    thousands_of_kib,
    tpmc_grid,
)

RULES: tuple[Rule, ...] = (
    response_limits.RULE,
    minute_by_second.RULE,
    payment_quoted.RULE,
    pool_asked.RULE,
    rounded_sizes.RULE,
    shares_of_what.RULE,
    spot_samples.RULE,
    boot_average.RULE,
    idle_rates.RULE,
    floored_hit_ratio.RULE,
    gets_per_new_order.RULE,
    tpmc_grid.RULE,
    single_runs.RULE,
    thousands_of_kib.RULE,
    off_page_reads.RULE,
    queued_only.RULE,
)
