-- TPC-C 3.3.2.11: a district's orders less its new orders are 2100, plus the orders delivered since the load
-- One row per district that violates it. The clause itself says 2100, which is true only after the load, because every
-- delivery removes a new order and keeps the order. So the checker provides the deliveries that the driver counted,
-- in the temporary table delivered(w_id, d_id, orders), and :initial_delivered, which is 2100 at full size.
SELECT d_w_id, d_id, order_rows, new_order_rows, expected_difference
FROM (
  SELECT d_w_id, d_id,
    (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS order_rows,
    (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS new_order_rows,
    :initial_delivered
      + coalesce((SELECT orders FROM delivered WHERE delivered.w_id = d_w_id AND delivered.d_id = district.d_id), 0)
      AS expected_difference
  FROM district
) AS counted
WHERE order_rows - new_order_rows <> expected_difference;
