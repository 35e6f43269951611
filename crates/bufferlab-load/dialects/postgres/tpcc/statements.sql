-- The statements of bufferlab-workload's tpcc::statements for PostgreSQL: each section is one statement, named as there, its
-- parameters and columns in the order documented there. Money crosses the client as integer cents and is NUMERIC in the
-- tables: `$1::bigint * 0.01` is exact, and the client reads a NUMERIC as an integer of its last digit. Dates cross as
-- microseconds and are TIMESTAMP. FOR UPDATE stands where the catalogue says *locks*: with READ COMMITTED it reads the row as it
-- was committed last, and so do the writes that follow.

-- name: read_warehouse_tax
SELECT w_tax FROM warehouse WHERE w_id = $1;

-- name: read_district_order
SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE;

-- name: increment_district_order
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2;

-- name: read_customer_discount
SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- name: insert_order
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
VALUES ($1, $2, $3, $4, $5, NULL, $6, $7);

-- name: insert_new_order
INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3);

-- name: read_item
SELECT i_price, i_name, i_data FROM item WHERE i_id = $1;

-- name: read_stock_01
SELECT s_quantity, s_dist_01, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_02
SELECT s_quantity, s_dist_02, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_03
SELECT s_quantity, s_dist_03, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_04
SELECT s_quantity, s_dist_04, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_05
SELECT s_quantity, s_dist_05, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_06
SELECT s_quantity, s_dist_06, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_07
SELECT s_quantity, s_dist_07, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_08
SELECT s_quantity, s_dist_08, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_09
SELECT s_quantity, s_dist_09, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: read_stock_10
SELECT s_quantity, s_dist_10, s_data FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE;

-- name: update_stock
UPDATE stock
SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + $3, s_remote_cnt = s_remote_cnt + $4
WHERE s_w_id = $5 AND s_i_id = $6;

-- name: insert_order_line
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity,
  ol_amount, ol_dist_info)
VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8::bigint * 0.01, $9);

-- name: update_warehouse_ytd
UPDATE warehouse SET w_ytd = w_ytd + $1::bigint * 0.01 WHERE w_id = $2;

-- name: read_warehouse_address
SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = $1;

-- name: update_district_ytd
UPDATE district SET d_ytd = d_ytd + $1::bigint * 0.01 WHERE d_w_id = $2 AND d_id = $3;

-- name: read_district_address
SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district
WHERE d_w_id = $1 AND d_id = $2;

-- name: list_customers_by_name
SELECT c_id FROM customer
WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first, c_id;

-- name: read_customer_payment
SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
  c_credit_lim, c_discount, c_balance
FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE;

-- name: update_customer_payment
UPDATE customer
SET c_balance = c_balance - $1::bigint * 0.01, c_ytd_payment = c_ytd_payment + $2::bigint * 0.01,
  c_payment_cnt = c_payment_cnt + 1
WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5;

-- name: read_customer_data
-- Locks too: the row is locked already, so it costs nothing more, and what is read is what will be written over.
SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE;

-- name: update_customer_payment_data
UPDATE customer
SET c_balance = c_balance - $1::bigint * 0.01, c_ytd_payment = c_ytd_payment + $2::bigint * 0.01,
  c_payment_cnt = c_payment_cnt + 1, c_data = $3
WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = $6;

-- name: insert_history
INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
VALUES ($1, $2, $3, $4, $5, $6, $7::bigint * 0.01, $8);

-- name: read_customer_status
SELECT c_balance, c_first, c_middle, c_last FROM customer
WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3;

-- name: read_last_order
SELECT o_id, o_entry_d, o_carrier_id FROM orders
WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1;

-- name: read_order_lines
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3;

-- name: read_oldest_new_order
SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE;

-- name: delete_new_order
DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3;

-- name: read_order_customer
SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 FOR UPDATE;

-- name: update_order_carrier
UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4;

-- name: update_order_lines_delivery
UPDATE order_line SET ol_delivery_d = $1
WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4;

-- name: sum_order_lines
SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3;

-- name: update_customer_delivery
UPDATE customer SET c_balance = c_balance + $1::bigint * 0.01, c_delivery_cnt = c_delivery_cnt + 1
WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4;

-- name: read_district_next_order
SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2;

-- name: count_low_stock
SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = $1 AND s_i_id = ol_i_id
WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id >= $4 AND ol_o_id < $5 AND s_quantity < $6;
