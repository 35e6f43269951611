-- sysbench's table: the index k_1 holds every row's k, and nothing else
-- The query returns one row on a violation. It sums the checksums of all entries of each tree, because to look up each
-- row in the index takes minutes for ten million rows. Both scans name the tree to read: the server would otherwise use
-- the smaller tree for both.
SELECT entries, table_rows, entries_sum, table_sum
FROM
  (SELECT count(k) AS entries, sum(crc32(concat_ws(':', k, id))) AS entries_sum FROM sbtest1 FORCE INDEX (k_1)) AS of_index,
  (
    SELECT count(pad) AS table_rows, sum(crc32(concat_ws(':', k, id))) AS table_sum FROM sbtest1 FORCE INDEX (PRIMARY)
  ) AS of_table
WHERE entries <> table_rows OR entries_sum <> table_sum;
