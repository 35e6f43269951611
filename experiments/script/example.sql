-- An example of a script: a small shop whose products are looked up often, a few far more often than the rest.
-- The setup runs once, when the database is loaded; runs then work on copies of it.

-- setup
CREATE TABLE product (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, sold INTEGER NOT NULL, description TEXT NOT NULL);
INSERT INTO product
WITH RECURSIVE many (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < 60000)
SELECT i, 100 + (i * 7919) % 9900, 0, printf('%0240d', i) FROM many;
CREATE TABLE sale (id INTEGER PRIMARY KEY, product INTEGER NOT NULL, price INTEGER NOT NULL);

-- Nine transactions in ten look at a product.
-- transaction: look weight=9
\set product random_zipfian(1, 60000, 0.8)
SELECT price, description FROM product WHERE id = :product;

-- One in ten buys one.
-- transaction: buy weight=1
\set product random_zipfian(1, 60000, 0.8)
BEGIN;
UPDATE product SET sold = sold + 1 WHERE id = :product;
INSERT INTO sale (product, price) SELECT id, price FROM product WHERE id = :product;
COMMIT;
