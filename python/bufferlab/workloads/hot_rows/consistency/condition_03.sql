-- sysbench's table: c is ten groups of eleven digits joined by hyphens
-- One row per row that violates it. Updates write c, so this also checks what they wrote.
SELECT id, length(c) AS characters, substr(c, 1, 30) AS c_begins
FROM sbtest1
WHERE c NOT GLOB replace(
  '###########-###########-###########-###########-###########-###########-###########-###########-###########-###########',
  '#', '[0-9]'
);
