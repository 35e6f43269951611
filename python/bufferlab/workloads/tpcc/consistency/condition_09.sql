-- TPC-C 3.3.2.9: D_YTD is the sum of H_AMOUNT over the payments made in the district
-- One row per district that violates it.
SELECT d_w_id, d_id, d_ytd, sum_h_amount
FROM district
LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS sum_h_amount FROM history GROUP BY h_w_id, h_d_id) AS paid
  ON h_w_id = d_w_id AND h_d_id = d_id
WHERE NOT coalesce(d_ytd = sum_h_amount, false);
