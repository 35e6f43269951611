-- TPC-C 3.3.2.7: OL_DELIVERY_D is null if and only if the order's O_CARRIER_ID is null
-- One row per order line that violates it. The order of the join is fixed: one pass over both tables,
-- instead of a search for the order of each line.
SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id
FROM orders CROSS JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL);
