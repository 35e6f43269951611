-- Reads every page that transactions may read, before the warm-up counts anything. From what a transaction needs least to what
-- it needs most: a pool that cannot hold all of it keeps the end.
-- A sequential scan of a table larger than a quarter of shared buffers goes through a ring of 256 KiB and leaves nothing behind,
-- and pg_prewarm is an extension that not every server has; so tables are walked through their primary keys, which no ring
-- serves, on any server. The rows lie in the order of the key, so that each page of the table is read once and stands in the
-- pool as one that was touched once. The other indexes are walked alone, without the table: after the load every page is
-- known to be visible to all. History is only appended to, and has no index.

-- name: settings
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET enable_indexonlyscan = off;
SET max_parallel_workers_per_gather = 0; SET jit = off;

-- name: order_line
SELECT count(*) FROM (
  SELECT FROM order_line WHERE ol_w_id > 0 ORDER BY ol_w_id, ol_d_id, ol_o_id, ol_number OFFSET 0) AS rows_in_key_order;

-- name: orders
SELECT count(*) FROM (
  SELECT FROM orders WHERE o_w_id > 0 ORDER BY o_w_id, o_d_id, o_id OFFSET 0) AS rows_in_key_order;

-- name: new_order
SELECT count(*) FROM (
  SELECT FROM new_order WHERE no_w_id > 0 ORDER BY no_w_id, no_d_id, no_o_id OFFSET 0) AS rows_in_key_order;

-- name: indexes_alone
SET enable_indexonlyscan = on;

-- name: orders_by_customer
SELECT count(*) FROM (
  SELECT FROM orders WHERE o_w_id > 0 ORDER BY o_w_id, o_d_id, o_c_id, o_id OFFSET 0) AS entries;

-- name: customer_by_name
SELECT count(*) FROM (
  SELECT FROM customer WHERE c_w_id > 0 ORDER BY c_w_id, c_d_id, c_last, c_first, c_id OFFSET 0) AS entries;

-- name: indexes_with_tables
SET enable_indexonlyscan = off;

-- name: customer
SELECT count(*) FROM (
  SELECT FROM customer WHERE c_w_id > 0 ORDER BY c_w_id, c_d_id, c_id OFFSET 0) AS rows_in_key_order;

-- name: stock
SELECT count(*) FROM (
  SELECT FROM stock WHERE s_w_id > 0 ORDER BY s_w_id, s_i_id OFFSET 0) AS rows_in_key_order;

-- name: item
SELECT count(*) FROM (
  SELECT FROM item WHERE i_id > 0 ORDER BY i_id OFFSET 0) AS rows_in_key_order;

-- name: district
SELECT count(*) FROM (
  SELECT FROM district WHERE d_w_id > 0 ORDER BY d_w_id, d_id OFFSET 0) AS rows_in_key_order;

-- name: warehouse
SELECT count(*) FROM (
  SELECT FROM warehouse WHERE w_id > 0 ORDER BY w_id OFFSET 0) AS rows_in_key_order;
