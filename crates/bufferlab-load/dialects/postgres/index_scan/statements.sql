-- TPC-H's Q1 (2.4.1) for PostgreSQL, one section for each plan; bufferlab-workload's index_scan::statements documents parameters
-- and columns. The text is the same in all: the plan is forced by the settings of the session. The client reads a NUMERIC as an
-- integer of its last digit, so sums cross exactly; days cross as dates.

-- name: index_scan
SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity)::float8 AS avg_qty,
       avg(l_extendedprice)::float8 AS avg_price,
       avg(l_discount)::float8 AS avg_disc,
       count(*) AS count_order
FROM lineitem
WHERE l_shipdate >= $1 AND l_shipdate < $2
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;

-- name: sequential
SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity)::float8 AS avg_qty,
       avg(l_extendedprice)::float8 AS avg_price,
       avg(l_discount)::float8 AS avg_disc,
       count(*) AS count_order
FROM lineitem
WHERE l_shipdate >= $1 AND l_shipdate < $2
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;

-- name: bitmap
SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity)::float8 AS avg_qty,
       avg(l_extendedprice)::float8 AS avg_price,
       avg(l_discount)::float8 AS avg_disc,
       count(*) AS count_order
FROM lineitem
WHERE l_shipdate >= $1 AND l_shipdate < $2
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;
