-- sysbench's table: the index k_1 holds every row's k, and nothing else
-- One row per row of the table that the index lacks, and one if the index has more entries than the table has rows.
-- Both scans name the tree to read: SQLite would otherwise use the smaller tree for both.
SELECT id, k, 'not in the index' AS fault
FROM sbtest1 AS of_table NOT INDEXED
WHERE NOT EXISTS (
  SELECT 1 FROM sbtest1 AS of_index INDEXED BY k_1 WHERE of_index.k = of_table.k AND of_index.id = of_table.id
)
UNION ALL
SELECT entries, table_rows, 'entries and rows differ'
FROM
  (SELECT count(k) AS entries FROM sbtest1 INDEXED BY k_1),
  (SELECT count(pad) AS table_rows FROM sbtest1 NOT INDEXED)
WHERE entries <> table_rows;
