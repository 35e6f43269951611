-- TPC-C 3.3.2.4: the sum of O_OL_CNT over a district is its number of rows in ORDER-LINE
-- One row per district that violates it. Each district is one range of keys in both clustered tables, and is read once.
SELECT d_w_id, d_id, sum_o_ol_cnt, order_lines
FROM (
  SELECT d_w_id, d_id,
    (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS sum_o_ol_cnt,
    (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id) AS order_lines
  FROM district
) AS counted
WHERE coalesce(sum_o_ol_cnt, 0) <> order_lines;
