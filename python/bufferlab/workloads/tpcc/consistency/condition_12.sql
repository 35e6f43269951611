-- TPC-C 3.3.2.12: C_BALANCE + C_YTD_PAYMENT is the sum of OL_AMOUNT over the customer's delivered order lines
-- One row per customer that violates it. The query reads in key order, as that of condition 10 does.
SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, coalesce(sum(ol_amount), 0) AS sum_ol_amount
FROM customer
LEFT JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
LEFT JOIN order_line
  ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL
GROUP BY c_w_id, c_d_id, c_id
HAVING c_balance + c_ytd_payment <> coalesce(sum(ol_amount), 0);
