-- Inserts at the end of a table, ten rows of about 200 bytes in one transaction, as logs and histories grow.
-- RETURNING counts the rows, so that costs are per row inserted.

-- setup
CREATE TABLE appended_rows (id INTEGER PRIMARY KEY, filler TEXT NOT NULL);

-- transaction: insert
INSERT INTO appended_rows (filler)
WITH RECURSIVE ten (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM ten WHERE i < 10)
SELECT printf('%0190d', i) FROM ten
RETURNING id;
