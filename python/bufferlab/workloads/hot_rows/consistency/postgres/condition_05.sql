-- sysbench's table: the index k_1 holds every row's k, and nothing else
-- One row when there is no such index that queries may use. That every row is in it, and that it is in order, was
-- checked before with every index (bt_index_check, heapallindexed): a query cannot be told to read an index here.
SELECT 'sbtest1' AS of_table, 'k_1' AS lacks_index
WHERE NOT EXISTS (
  SELECT 1
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
  WHERE relname = 'k_1' AND indrelid = 'sbtest1'::regclass AND indisvalid AND indisready
);
