-- LINEITEM: the index on the ship date has an entry for every line, under the date that the line has
-- One row when there is no such index that queries may use. That every line is in it, and that it is in order, was checked
-- before with every index (bt_index_check, heapallindexed): a query cannot be told to read an index here.
SELECT 'lineitem' AS of_table, 'lineitem_by_shipdate' AS lacks_index
WHERE NOT EXISTS (
  SELECT 1
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
  WHERE relname = 'lineitem_by_shipdate' AND indrelid = 'lineitem'::regclass AND indisvalid AND indisready
);
