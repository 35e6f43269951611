-- sysbench's table: the index k_1 holds every row's k, and nothing else
-- One row per row of the table that the index lacks, and one if it has more entries than the table rows. Both scans
-- are told which tree to read: the server would otherwise answer from whichever is smaller.
SELECT id, k, 'not in the index' AS fault
FROM sbtest1 AS of_table FORCE INDEX (PRIMARY)
WHERE NOT EXISTS (
  SELECT 1 FROM sbtest1 AS of_index FORCE INDEX (k_1) WHERE of_index.k = of_table.k AND of_index.id = of_table.id
)
UNION ALL
SELECT entries, table_rows, 'entries and rows differ'
FROM
  (SELECT count(k) AS entries FROM sbtest1 FORCE INDEX (k_1)) AS of_index,
  (SELECT count(pad) AS table_rows FROM sbtest1 FORCE INDEX (PRIMARY)) AS of_table
WHERE entries <> table_rows;
