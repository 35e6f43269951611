-- append.sql for MySQL and MariaDB: inserts at the end of a table, ten rows of about 200 bytes in one transaction.
-- Written for MySQL 5.6 too, which has neither common table expressions nor RETURNING; rows inserted are counted.

-- setup
CREATE TABLE appended_rows (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, filler VARCHAR(200) NOT NULL) ENGINE=InnoDB;

-- transaction: insert
INSERT INTO appended_rows (filler)
SELECT LPAD(i, 190, '0')
FROM (SELECT 1 AS i UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
      UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10) AS ten;
