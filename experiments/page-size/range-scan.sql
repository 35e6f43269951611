-- Scans about a thousand neighbouring rows of TPC-C's largest table: the lines of a hundred orders of one district.
-- Rows are returned one by one, because the cost of a row is the question.

-- transaction: scan
\set warehouse random(1, :warehouses)
\set district random(1, 10)
\set first random(1, 2900)
SELECT ol_o_id, ol_number, ol_i_id, ol_quantity, ol_amount
FROM order_line
WHERE ol_w_id = :warehouse AND ol_d_id = :district AND ol_o_id >= :first AND ol_o_id < :first + 100;
