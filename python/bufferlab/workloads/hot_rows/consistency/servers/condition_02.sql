-- sysbench's table: k is a whole number from 1 to the number of rows
-- One row per row that violates it. The workload never changes k; its column holds whole numbers only.
SELECT id, k FROM sbtest1 WHERE k < 1 OR k > :rows;
