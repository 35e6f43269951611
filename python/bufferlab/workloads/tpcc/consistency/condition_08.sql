-- TPC-C 3.3.2.8: W_YTD is the sum of H_AMOUNT over the payments made at the warehouse
-- One row per warehouse that violates it.
SELECT w_id, w_ytd, sum_h_amount
FROM warehouse
LEFT JOIN (SELECT h_w_id, sum(h_amount) AS sum_h_amount FROM history GROUP BY h_w_id) AS paid ON h_w_id = w_id
WHERE NOT coalesce(w_ytd = sum_h_amount, false);
