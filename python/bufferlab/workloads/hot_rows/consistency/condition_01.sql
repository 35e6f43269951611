-- sysbench's table: ids are 1 to the number of rows, each once
-- The query returns one row on a violation. An id cannot occur twice, because it is the table's key. So the number of
-- rows, the lowest id and the highest id are enough.
SELECT found_rows, lowest_id, highest_id, :rows AS expected_rows
FROM (SELECT count(*) AS found_rows, min(id) AS lowest_id, max(id) AS highest_id FROM sbtest1) AS found
WHERE found_rows <> :rows OR NOT coalesce(lowest_id = 1 AND highest_id = :rows, false);
