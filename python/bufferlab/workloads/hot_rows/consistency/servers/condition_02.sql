-- sysbench's table: k is a whole number from 1 to the number of rows
-- One row per row that violates it. The workload never changes k, and the column's type allows only whole numbers.
SELECT id, k FROM sbtest1 WHERE k < 1 OR k > :rows;
