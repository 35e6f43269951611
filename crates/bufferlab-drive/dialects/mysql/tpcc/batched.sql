-- How runs of calls of one statement are sent as one, in the list `batched`. A section names the statement, then:
--   -- key: N, ...    a read: its first columns say which call a row answers; they equal these parameters of the call
--   -- affects: N     a write: rows that the server counts for each call
-- ?N is the call's N-th parameter, counted from one. What stands in {...|SEPARATOR} is repeated for every call; a ?N outside of
-- it is common to all calls, and a call with another value begins a new statement. Lists of values and ORs of whole keys
-- only: row constructors are not sent through the index by 5.6.

-- name: read_item
-- key: 1
SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ({?1|, });

-- name: read_stock_01
-- key: 2
SELECT s_i_id, s_quantity, s_dist_01, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_02
-- key: 2
SELECT s_i_id, s_quantity, s_dist_02, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_03
-- key: 2
SELECT s_i_id, s_quantity, s_dist_03, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_04
-- key: 2
SELECT s_i_id, s_quantity, s_dist_04, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_05
-- key: 2
SELECT s_i_id, s_quantity, s_dist_05, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_06
-- key: 2
SELECT s_i_id, s_quantity, s_dist_06, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_07
-- key: 2
SELECT s_i_id, s_quantity, s_dist_07, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_08
-- key: 2
SELECT s_i_id, s_quantity, s_dist_08, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_09
-- key: 2
SELECT s_i_id, s_quantity, s_dist_09, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: read_stock_10
-- key: 2
SELECT s_i_id, s_quantity, s_dist_10, s_data FROM stock WHERE s_w_id = ?1 AND s_i_id IN ({?2|, }) FOR UPDATE;

-- name: update_stock
-- affects: 2
-- The rows exist and are locked, so that nothing is ever inserted; an updated row is counted twice.
INSERT INTO stock (s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt)
VALUES {(?5, ?6, ?1, ?2, ?3, ?4)|, }
ON DUPLICATE KEY UPDATE s_quantity = VALUES(s_quantity), s_ytd = s_ytd + VALUES(s_ytd),
  s_order_cnt = s_order_cnt + VALUES(s_order_cnt), s_remote_cnt = s_remote_cnt + VALUES(s_remote_cnt);

-- name: insert_order_line
-- affects: 1
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity,
  ol_amount, ol_dist_info)
VALUES {(?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, ?8 / 100, ?9)|, };

-- name: read_oldest_new_order
-- key: 2
{(SELECT no_d_id, no_o_id FROM new_order WHERE no_w_id = ?1 AND no_d_id = ?2 ORDER BY no_o_id LIMIT 1 FOR UPDATE)| UNION ALL };

-- name: delete_new_order
-- affects: 1
DELETE FROM new_order WHERE {(no_w_id = ?1 AND no_d_id = ?2 AND no_o_id = ?3)| OR };

-- name: read_order_customer
-- key: 1, 2, 3
SELECT o_w_id, o_d_id, o_id, o_c_id FROM orders
WHERE {(o_w_id = ?1 AND o_d_id = ?2 AND o_id = ?3)| OR } FOR UPDATE;

-- name: update_order_carrier
-- affects: 1
UPDATE orders SET o_carrier_id = ?1 WHERE {(o_w_id = ?2 AND o_d_id = ?3 AND o_id = ?4)| OR };

-- name: update_order_lines_delivery
-- affects: 1
UPDATE order_line SET ol_delivery_d = FROM_UNIXTIME(?1 DIV 1000000)
WHERE {(ol_w_id = ?2 AND ol_d_id = ?3 AND ol_o_id = ?4)| OR };

-- name: sum_order_lines
-- key: 1, 2, 3
SELECT ol_w_id, ol_d_id, ol_o_id, SUM(ol_amount) FROM order_line
WHERE {(ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id = ?3)| OR } GROUP BY ol_w_id, ol_d_id, ol_o_id;

-- name: update_customer_delivery
-- affects: 2
-- As update_stock.
INSERT INTO customer (c_w_id, c_d_id, c_id, c_balance, c_delivery_cnt)
VALUES {(?2, ?3, ?4, ?1 / 100, 1)|, }
ON DUPLICATE KEY UPDATE c_balance = c_balance + VALUES(c_balance), c_delivery_cnt = c_delivery_cnt + 1;
