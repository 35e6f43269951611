-- TPC-H's Q1 (2.4.1); bufferlab-workload's index_scan::statements documents parameters and columns. The text is MySQL's; the
-- other dialects replace what they word otherwise, and every dialect says which words force a plan. The client reads a DECIMAL
-- as an integer of its last digit, so sums cross exactly; `+ 0e0` makes a mean a double.

-- name: q1
SELECT l_returnflag, l_linestatus,
       SUM(l_quantity) AS sum_qty,
       SUM(l_extendedprice) AS sum_base_price,
       SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       AVG(l_quantity) + 0e0 AS avg_qty,
       AVG(l_extendedprice) + 0e0 AS avg_price,
       AVG(l_discount) + 0e0 AS avg_disc,
       COUNT(*) AS count_order
FROM lineitem
WHERE l_shipdate >= DATE '1970-01-01' + INTERVAL ? DAY AND l_shipdate < DATE '1970-01-01' + INTERVAL ? DAY
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;
