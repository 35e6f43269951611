-- Inserts at random places of a table whose pages are full, ten rows of about 200 bytes in one transaction: every row
-- finds another page, and a full page is split. The table (about 24 MB) is larger than the small pool.
-- RETURNING counts the rows, so that costs are per row inserted.

-- setup
CREATE TABLE scattered_rows (id INTEGER PRIMARY KEY, filler TEXT NOT NULL);
INSERT INTO scattered_rows (id, filler)
WITH RECURSIVE many (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < 120000)
SELECT i * 30000, printf('%0190d', i) FROM many;

-- transaction: insert
\set place random(1, 3600000000)
INSERT OR IGNORE INTO scattered_rows (id, filler)
WITH RECURSIVE ten (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM ten WHERE i < 10)
SELECT (:place + i * 360000000) % 3600000000, printf('%0190d', i) FROM ten
RETURNING id;
