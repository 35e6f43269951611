-- sysbench's table: pad is five groups of eleven digits joined by hyphens
-- One row per row that violates it.
-- The groups are compared one by one: a single regular expression takes MySQL 5.x 37 us per row, six minutes for ten
-- million rows.
SELECT id, length(pad) AS characters, substr(pad, 1, 30) AS pad_begins
FROM sbtest1
WHERE pad NOT LIKE replace('###########-###########-###########-###########-###########', '#', '_')
  OR pad REGEXP '[^0-9-]'
  OR length(replace(pad, '-', '')) <> 55;
