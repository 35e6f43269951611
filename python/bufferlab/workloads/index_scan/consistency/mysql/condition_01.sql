-- TPC-H 4.2.3: the lines of an order are numbered from 1 to at most 7, without a gap
-- One row per order that violates it. A number cannot occur twice, because it is part of the table's key.
SELECT l_orderkey, COUNT(*) AS lines_found, MIN(l_linenumber) AS first_line, MAX(l_linenumber) AS last_line
FROM lineitem FORCE INDEX (PRIMARY)
GROUP BY l_orderkey
HAVING first_line <> 1 OR last_line <> lines_found OR last_line > 7;
