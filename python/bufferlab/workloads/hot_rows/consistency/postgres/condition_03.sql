-- sysbench's table: c is ten groups of eleven digits joined by hyphens
-- One row per row that violates it. c is compared as text, without the blanks that pad the column. Updates write c, so
-- this also checks what they wrote.
SELECT id, length(c) AS characters, substr(c, 1, 30) AS c_begins
FROM sbtest1
WHERE c::text !~ '^([0-9]{11}-){9}[0-9]{11}$';
