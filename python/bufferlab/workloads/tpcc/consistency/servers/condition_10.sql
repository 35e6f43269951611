-- TPC-C 3.3.2.10: C_BALANCE is the sum of the customer's delivered OL_AMOUNTs less the sum of its H_AMOUNTs
-- One row per customer that violates it. Both sums are computed first, by one pass over each table.
SELECT c_w_id, c_d_id, c_id, c_balance, sum_ol_amount, sum_h_amount
FROM customer
LEFT JOIN (
  SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS sum_ol_amount
  FROM orders CROSS JOIN order_line
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL
  GROUP BY o_w_id, o_d_id, o_c_id
) AS delivered_lines ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
LEFT JOIN (
  SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS sum_h_amount
  FROM history
  GROUP BY h_c_w_id, h_c_d_id, h_c_id
) AS paid ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
WHERE c_balance <> coalesce(sum_ol_amount, 0) - coalesce(sum_h_amount, 0);
