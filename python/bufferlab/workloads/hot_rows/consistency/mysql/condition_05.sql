-- sysbench's table: the index k_1 holds every row's k, and nothing else
-- One row when it does not, by a sum over each tree of a checksum of every entry: to look each row up in the index takes
-- minutes for ten million rows. Both scans are told which tree to read: the server would otherwise answer from whichever
-- is smaller.
SELECT entries, table_rows, entries_sum, table_sum
FROM
  (SELECT count(k) AS entries, sum(crc32(concat_ws(':', k, id))) AS entries_sum FROM sbtest1 FORCE INDEX (k_1)) AS of_index,
  (
    SELECT count(pad) AS table_rows, sum(crc32(concat_ws(':', k, id))) AS table_sum FROM sbtest1 FORCE INDEX (PRIMARY)
  ) AS of_table
WHERE entries <> table_rows OR entries_sum <> table_sum;
