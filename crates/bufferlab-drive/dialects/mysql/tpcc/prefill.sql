-- Reads every page that transactions may read, before the warm-up counts anything.
-- From what a transaction needs least to what it needs most: an LRU pool that cannot hold all of it keeps the end. InnoDB's
-- would not: pages of a scan stay in the old sublist, and once the pool is full a later table could only displace the
-- end of the one before. With innodb_old_blocks_time = 0 a page becomes young at its second touch, as in a plain LRU list;
-- the setting is put back at the end, by the same session.
-- Each sum reads the last column of its table, which lies in every leaf page, or walks an index that covers it.

-- name: remember_old_blocks_time
SET @bufferlab_old_blocks_time = @@GLOBAL.innodb_old_blocks_time;

-- name: plain_lru
SET GLOBAL innodb_old_blocks_time = 0;

-- name: history
SELECT SUM(LENGTH(h_data)) FROM history;

-- name: order_line
SELECT SUM(LENGTH(ol_dist_info)) FROM order_line;

-- name: orders
SELECT SUM(o_all_local) FROM orders;

-- name: new_order
SELECT SUM(no_o_id) FROM new_order;

-- name: orders_by_customer
SELECT COUNT(*) FROM orders FORCE INDEX (orders_by_customer) WHERE o_w_id > 0;

-- name: customer_by_name
SELECT COUNT(*) FROM customer FORCE INDEX (customer_by_name) WHERE c_w_id > 0;

-- name: customer
SELECT SUM(LENGTH(c_data)) FROM customer;

-- name: stock
SELECT SUM(LENGTH(s_data)) FROM stock;

-- name: item
SELECT SUM(LENGTH(i_data)) FROM item;

-- name: district
SELECT SUM(d_next_o_id) FROM district;

-- name: warehouse
SELECT SUM(w_ytd) FROM warehouse;

-- name: old_blocks_time_as_before
SET GLOBAL innodb_old_blocks_time = @bufferlab_old_blocks_time;
