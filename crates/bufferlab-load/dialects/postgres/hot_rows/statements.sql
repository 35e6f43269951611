-- The hot-row workload's statements for PostgreSQL, one section per name in bufferlab-workload's hot_rows::statements.
-- Parameters are in the order documented there.

-- name: read_c
SELECT c FROM sbtest1 WHERE id = $1;

-- name: update_c
UPDATE sbtest1 SET c = $1 WHERE id = $2;
