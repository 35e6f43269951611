-- TPC-C 3.3.2.3: the NO_O_IDs of a district have no gaps: max - min + 1 is the number of rows
-- One row per district that violates it; districts without undelivered orders are exempt.
SELECT no_w_id, no_d_id, min(no_o_id) AS min_no_o_id, max(no_o_id) AS max_no_o_id, count(*) AS new_orders
FROM new_order
GROUP BY no_w_id, no_d_id
HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*);
