-- The statements of bufferlab-workload's tpcc::statements: each section is one statement, named as there, its parameters and
-- columns in the order documented there. The text is MySQL's; the other dialects replace what they word otherwise.
-- Money crosses the client as integer cents and is DECIMAL in servers' tables: `? / 100` is exact in decimal arithmetic, and
-- the client reads a DECIMAL as an integer of its last digit. Dates cross as microseconds and are DATETIME, in whole seconds.
-- FOR UPDATE stands where the catalogue says *locks*. read_customer_data locks too: the row is locked already, and a plain
-- read of MySQL would show it as of the transaction's snapshot, which may be older.
-- FORCE INDEX stands where a planner whose statistics are off, or missing, would walk a district's whole primary key instead;
-- STRAIGHT_JOIN where lines are to be read first, and then the stock of each.

-- name: read_warehouse_tax
SELECT w_tax FROM warehouse WHERE w_id = ?;

-- name: read_district_order
SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE;

-- name: increment_district_order
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?;

-- name: read_customer_discount
SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;

-- name: insert_order
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
VALUES (?, ?, ?, ?, FROM_UNIXTIME(? DIV 1000000), NULL, ?, ?);

-- name: insert_new_order
INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?);

-- name: read_item
SELECT i_price, i_name, i_data FROM item WHERE i_id = ?;

-- name: read_stock_01
SELECT s_quantity, s_dist_01, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_02
SELECT s_quantity, s_dist_02, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_03
SELECT s_quantity, s_dist_03, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_04
SELECT s_quantity, s_dist_04, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_05
SELECT s_quantity, s_dist_05, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_06
SELECT s_quantity, s_dist_06, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_07
SELECT s_quantity, s_dist_07, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_08
SELECT s_quantity, s_dist_08, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_09
SELECT s_quantity, s_dist_09, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: read_stock_10
SELECT s_quantity, s_dist_10, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE;

-- name: update_stock
UPDATE stock
SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + ?, s_remote_cnt = s_remote_cnt + ?
WHERE s_w_id = ? AND s_i_id = ?;

-- name: insert_order_line
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity,
  ol_amount, ol_dist_info)
VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ? / 100, ?);

-- name: update_warehouse_ytd
UPDATE warehouse SET w_ytd = w_ytd + ? / 100 WHERE w_id = ?;

-- name: read_warehouse_address
SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?;

-- name: update_district_ytd
UPDATE district SET d_ytd = d_ytd + ? / 100 WHERE d_w_id = ? AND d_id = ?;

-- name: read_district_address
SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district
WHERE d_w_id = ? AND d_id = ?;

-- name: list_customers_by_name
SELECT c_id FROM customer FORCE INDEX (customer_by_name)
WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first, c_id;

-- name: read_customer_payment
SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
  c_credit_lim, c_discount, c_balance
FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE;

-- name: update_customer_payment
UPDATE customer
SET c_balance = c_balance - ? / 100, c_ytd_payment = c_ytd_payment + ? / 100, c_payment_cnt = c_payment_cnt + 1
WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;

-- name: read_customer_data
SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE;

-- name: update_customer_payment_data
UPDATE customer
SET c_balance = c_balance - ? / 100, c_ytd_payment = c_ytd_payment + ? / 100, c_payment_cnt = c_payment_cnt + 1,
  c_data = ?
WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;

-- name: insert_history
INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
VALUES (?, ?, ?, ?, ?, FROM_UNIXTIME(? DIV 1000000), ? / 100, ?);

-- name: read_customer_status
SELECT c_balance, c_first, c_middle, c_last FROM customer
WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;

-- name: read_last_order
SELECT o_id, o_entry_d, o_carrier_id FROM orders FORCE INDEX (orders_by_customer)
WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1;

-- name: read_order_lines
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;

-- name: read_oldest_new_order
SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE;

-- name: delete_new_order
DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?;

-- name: read_order_customer
SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? FOR UPDATE;

-- name: update_order_carrier
UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?;

-- name: update_order_lines_delivery
UPDATE order_line SET ol_delivery_d = FROM_UNIXTIME(? DIV 1000000)
WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;

-- name: sum_order_lines
SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?;

-- name: update_customer_delivery
UPDATE customer SET c_balance = c_balance + ? / 100, c_delivery_cnt = c_delivery_cnt + 1
WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?;

-- name: read_district_next_order
SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?;

-- name: count_low_stock
SELECT COUNT(DISTINCT s_i_id) FROM order_line STRAIGHT_JOIN stock ON s_w_id = ? AND s_i_id = ol_i_id
WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_quantity < ?;
