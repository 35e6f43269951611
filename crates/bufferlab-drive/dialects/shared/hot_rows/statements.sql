-- The hot-row workload's statements, one section per name in bufferlab-workload's hot_rows::statements. Parameters are in the
-- order documented there.

-- name: read_c
SELECT c FROM sbtest1 WHERE id = ?;

-- name: update_c
UPDATE sbtest1 SET c = ? WHERE id = ?;
