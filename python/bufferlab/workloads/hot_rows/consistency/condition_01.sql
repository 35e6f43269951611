-- sysbench's table: ids are 1 to the number of rows, each once
-- One row when they are not. No id is there twice, because it is the table's key; so the number of rows, the lowest
-- and the highest say it all.
SELECT found_rows, lowest_id, highest_id, :rows AS expected_rows
FROM (SELECT count(*) AS found_rows, min(id) AS lowest_id, max(id) AS highest_id FROM sbtest1) AS found
WHERE found_rows <> :rows OR NOT coalesce(lowest_id = 1 AND highest_id = :rows, false);
