-- Reads every page that transactions may read, before the warm-up counts anything.
-- From what a transaction needs least to what it needs most: an LRU pool that cannot hold all of it keeps the end.
-- Each sum reads the last column of its table, which lies in every leaf page, or walks an index that covers it.

-- name: history
SELECT sum(length(h_data)) FROM history;

-- name: order_line
SELECT sum(length(ol_dist_info)) FROM order_line;

-- name: orders
SELECT sum(o_all_local) FROM orders NOT INDEXED;

-- name: new_order
SELECT sum(no_o_id) FROM new_order;

-- name: orders_by_customer
SELECT count(*) FROM orders INDEXED BY orders_by_customer WHERE o_w_id > 0;

-- name: customer_by_name
SELECT count(*) FROM customer INDEXED BY customer_by_name WHERE c_w_id > 0;

-- name: customer
SELECT sum(length(c_data)) FROM customer NOT INDEXED;

-- name: stock
SELECT sum(length(s_data)) FROM stock;

-- name: item
SELECT sum(length(i_data)) FROM item;

-- name: district
SELECT sum(d_next_o_id) FROM district;

-- name: warehouse
SELECT sum(w_ytd) FROM warehouse;
