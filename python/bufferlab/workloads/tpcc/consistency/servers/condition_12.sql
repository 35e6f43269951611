-- TPC-C 3.3.2.12: C_BALANCE + C_YTD_PAYMENT is the sum of OL_AMOUNT over the customer's delivered order lines
-- One row per customer that violates it. The sums are computed first, by one pass over orders and their lines.
SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, sum_ol_amount
FROM customer
LEFT JOIN (
  SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS sum_ol_amount
  FROM orders CROSS JOIN order_line
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL
  GROUP BY o_w_id, o_d_id, o_c_id
) AS delivered_lines ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
WHERE c_balance + c_ytd_payment <> coalesce(sum_ol_amount, 0);
