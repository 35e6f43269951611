-- TPC-C 3.3.2.2: D_NEXT_O_ID - 1 is the largest O_ID and the largest NO_O_ID of the district
-- One row per district that violates it. A district without undelivered orders has no NO_O_ID to compare.
-- The two largest keys are found by one search in each table's key, without a scan.
SELECT d_w_id, d_id, d_next_o_id, max_o_id, max_no_o_id
FROM (
  SELECT d_w_id, d_id, d_next_o_id,
    (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS max_o_id,
    (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS max_no_o_id
  FROM district
) AS newest
WHERE NOT coalesce(max_o_id = d_next_o_id - 1, false) OR max_no_o_id <> d_next_o_id - 1;
