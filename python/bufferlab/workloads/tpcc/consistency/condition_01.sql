-- TPC-C 3.3.2.1: W_YTD is the sum of D_YTD over the warehouse's districts
-- One row per warehouse that violates it.
SELECT w_id, w_ytd, sum(d_ytd) AS sum_d_ytd
FROM warehouse LEFT JOIN district ON d_w_id = w_id
GROUP BY w_id
HAVING NOT coalesce(w_ytd = sum(d_ytd), false);
