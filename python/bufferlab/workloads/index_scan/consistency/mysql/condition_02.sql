-- LINEITEM: the index on the ship date has an entry for every line, under the date that the line has
-- The query returns one row on a violation. It counts entries and lines, and adds up their dates.
SELECT by_index.entries, by_index.days AS days_by_index, by_table.lines_found, by_table.days
FROM (SELECT COUNT(*) AS entries, SUM(TO_DAYS(l_shipdate)) AS days
      FROM lineitem FORCE INDEX (lineitem_by_shipdate) WHERE l_shipdate > '1970-01-01') AS by_index,
     (SELECT COUNT(*) AS lines_found, SUM(TO_DAYS(l_shipdate)) AS days
      FROM lineitem IGNORE INDEX (lineitem_by_shipdate)) AS by_table
WHERE by_index.entries <> by_table.lines_found OR by_index.days <> by_table.days;
