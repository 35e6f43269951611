-- sysbench's table: k is a whole number from 1 to the number of rows
-- One row per row that violates it. The workload never changes k.
SELECT id, k FROM sbtest1 WHERE typeof(k) <> 'integer' OR k < 1 OR k > :rows;
