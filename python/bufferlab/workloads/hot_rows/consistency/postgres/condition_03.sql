-- sysbench's table: c is ten groups of eleven digits joined by hyphens
-- One row per row that violates it. As text, without the blanks that fill the column up. Updates write c, so this is also what is left of them.
SELECT id, length(c) AS characters, substr(c, 1, 30) AS c_begins
FROM sbtest1
WHERE c::text !~ '^([0-9]{11}-){9}[0-9]{11}$';
