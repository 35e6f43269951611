-- TPC-C 3.3.2.10: C_BALANCE is the sum of the customer's delivered OL_AMOUNTs less the sum of its H_AMOUNTs
-- One row per customer that violates it. The query reads customers, their orders (by the index) and the lines of each
-- order in key order, so that the grouping needs no sort. Only the payments are sorted.
SELECT c_w_id, c_d_id, c_id, c_balance, sum_ol_amount, sum_h_amount
FROM (
  SELECT c_w_id, c_d_id, c_id, c_balance, coalesce(sum(ol_amount), 0) AS sum_ol_amount
  FROM customer
  LEFT JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
  LEFT JOIN order_line
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL
  GROUP BY c_w_id, c_d_id, c_id
)
LEFT JOIN (
  SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS sum_h_amount
  FROM history
  GROUP BY h_c_w_id, h_c_d_id, h_c_id
) ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
WHERE c_balance <> sum_ol_amount - coalesce(sum_h_amount, 0);
