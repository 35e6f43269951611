-- TPC-H's Q1 (2.4.1) for SQLite, one section for each plan that SQLite can be made to take; bufferlab-workload's
-- index_scan::statements documents parameters and columns. Decimals are integer hundredths in the table, so 1 is 100 here and
-- every sum is exact. INDEXED BY fails where the index cannot be used. The plus sign forbids it; NOT INDEXED would not, in a
-- table WITHOUT ROWID.

-- name: index_scan
SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (100 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (100 - l_discount) * (100 + l_tax)) AS sum_charge,
       avg(l_quantity) / 100 AS avg_qty,
       avg(l_extendedprice) / 100 AS avg_price,
       avg(l_discount) / 100 AS avg_disc,
       count(*) AS count_order
FROM lineitem INDEXED BY lineitem_by_shipdate
WHERE l_shipdate >= ? AND l_shipdate < ?
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;

-- name: sequential
SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (100 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (100 - l_discount) * (100 + l_tax)) AS sum_charge,
       avg(l_quantity) / 100 AS avg_qty,
       avg(l_extendedprice) / 100 AS avg_price,
       avg(l_discount) / 100 AS avg_disc,
       count(*) AS count_order
FROM lineitem
WHERE +l_shipdate >= ? AND +l_shipdate < ?
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;
