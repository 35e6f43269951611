-- LINEITEM: the index on the ship date has an entry for every line, under the date that the line has
-- The query returns one row if there is no valid index of this name. An earlier check of all indexes (bt_index_check,
-- heapallindexed) has shown that each has every line, in order. PostgreSQL cannot be forced to read an index in a
-- query.
SELECT 'lineitem' AS of_table, 'lineitem_by_shipdate' AS lacks_index
WHERE NOT EXISTS (
  SELECT 1
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
  WHERE relname = 'lineitem_by_shipdate' AND indrelid = 'lineitem'::regclass AND indisvalid AND indisready
);
