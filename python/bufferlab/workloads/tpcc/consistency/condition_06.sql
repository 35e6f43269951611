-- TPC-C 3.3.2.6: O_OL_CNT is the number of the order's rows in ORDER-LINE
-- One row per order that violates it. Orders and their lines are clustered in the same order, so this is one
-- pass over both.
SELECT o_w_id, o_d_id, o_id, o_ol_cnt, count(ol_number) AS order_lines
FROM orders LEFT JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
GROUP BY o_w_id, o_d_id, o_id
HAVING o_ol_cnt <> count(ol_number);
