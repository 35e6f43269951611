-- LINEITEM: the index on the ship date has an entry for every line, under the date that the line has
-- The query returns one row on a violation. It counts entries and lines, and adds up their dates. It also counts
-- comments, which only the table has: SQLite would otherwise read the index twice, even with NOT INDEXED (the table has
-- no ROWID).
SELECT by_index.entries, by_index.days AS days_by_index, by_table.lines, by_table.days
FROM (SELECT count(*) AS entries, sum(l_shipdate) AS days
      FROM lineitem INDEXED BY lineitem_by_shipdate WHERE l_shipdate > 0) AS by_index,
     (SELECT count(l_comment) AS lines, sum(l_shipdate) AS days FROM lineitem) AS by_table
WHERE by_index.entries <> by_table.lines OR by_index.days <> by_table.days;
