-- sysbench's table: pad is five groups of eleven digits joined by hyphens
-- One row per row that violates it. pad is compared as text, without the blanks that pad the column.
SELECT id, length(pad) AS characters, substr(pad, 1, 30) AS pad_begins
FROM sbtest1
WHERE pad::text !~ '^([0-9]{11}-){4}[0-9]{11}$';
