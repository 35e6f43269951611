-- random-insert.sql for MySQL and MariaDB: inserts at random places of a table whose pages are full, ten rows of about
-- 200 bytes in one transaction: every row finds another page, and a full page is split. The table is about 28 MB.
-- Written for MySQL 5.6 too, which has no common table expressions; rows inserted are counted.

-- setup
CREATE TABLE scattered_rows (id BIGINT NOT NULL PRIMARY KEY, filler VARCHAR(200) NOT NULL) ENGINE=InnoDB;
CREATE TABLE digits (i INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
INSERT INTO scattered_rows (id, filler)
SELECT i * 30000, LPAD(i, 190, '0')
FROM (SELECT 1 + a.i + 10 * b.i + 100 * c.i + 1000 * d.i + 10000 * e.i + 100000 * f.i AS i
      FROM digits AS a, digits AS b, digits AS c, digits AS d, digits AS e, digits AS f
      WHERE f.i < 2) AS many
WHERE i <= 120000
ORDER BY i;

-- transaction: insert
\set place random(1, 3600000000)
INSERT IGNORE INTO scattered_rows (id, filler)
SELECT (:place + i * 360000000) % 3600000000, LPAD(i, 190, '0')
FROM digits;
