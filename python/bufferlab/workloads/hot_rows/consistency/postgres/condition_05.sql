-- sysbench's table: the index k_1 holds every row's k, and nothing else
-- The query returns one row if there is no valid index of this name. An earlier check of all indexes (bt_index_check,
-- heapallindexed) has shown that each has every row, in order. PostgreSQL cannot be forced to read an index in a query.
SELECT 'sbtest1' AS of_table, 'k_1' AS lacks_index
WHERE NOT EXISTS (
  SELECT 1
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
  WHERE relname = 'k_1' AND indrelid = 'sbtest1'::regclass AND indisvalid AND indisready
);
