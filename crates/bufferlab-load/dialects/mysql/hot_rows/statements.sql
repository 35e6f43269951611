-- The hot-row workload's statements for MySQL and MariaDB, one section per name in bufferlab-workload's hot_rows::statements.
-- Parameters are plain `?`, in the order documented there.

-- name: read_c
SELECT c FROM sbtest1 WHERE id = ?;

-- name: update_c
UPDATE sbtest1 SET c = ? WHERE id = ?;
