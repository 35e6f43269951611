-- example.sql for MySQL and MariaDB: a small shop whose products are looked up often, a few far more often than the rest.
-- Written for MySQL 5.6 too, which has no common table expressions. InnoDB's smallest pool is 5 MiB, so it is twice as large.

-- setup
CREATE TABLE digits (i INT NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
CREATE TABLE product (id INT NOT NULL PRIMARY KEY, price INT NOT NULL, sold INT NOT NULL, description VARCHAR(250) NOT NULL)
    ENGINE=InnoDB;
INSERT INTO product
SELECT i, 100 + (i * 7919) % 9900, 0, LPAD(i, 240, '0')
FROM (SELECT 1 + a.i + 10 * b.i + 100 * c.i + 1000 * d.i + 10000 * e.i + 100000 * f.i AS i
      FROM digits AS a, digits AS b, digits AS c, digits AS d, digits AS e, digits AS f
      WHERE f.i < 2) AS many
WHERE i <= 120000
ORDER BY i;
CREATE TABLE sale (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, product INT NOT NULL, price INT NOT NULL) ENGINE=InnoDB;

-- Nine transactions in ten look at a product.
-- transaction: look weight=9
\set product random_zipfian(1, 120000, 0.8)
SELECT price, description FROM product WHERE id = :product;

-- One in ten buys one.
-- transaction: buy weight=1
\set product random_zipfian(1, 120000, 0.8)
BEGIN;
UPDATE product SET sold = sold + 1 WHERE id = :product;
INSERT INTO sale (product, price) SELECT id, price FROM product WHERE id = :product;
COMMIT;
