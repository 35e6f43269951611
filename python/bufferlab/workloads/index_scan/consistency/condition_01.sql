-- TPC-H 4.2.3: the lines of an order are numbered from 1 to at most 7, without a gap
-- One row per order that violates it. A number cannot occur twice, because it is part of the table's key.
SELECT l_orderkey, count(*) AS lines_found, min(l_linenumber) AS first_line, max(l_linenumber) AS last_line
FROM lineitem
GROUP BY l_orderkey
HAVING min(l_linenumber) <> 1 OR max(l_linenumber) <> count(*) OR max(l_linenumber) > 7;
