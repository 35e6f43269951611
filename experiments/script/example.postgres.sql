-- example.sql for PostgreSQL: a small shop whose products are looked up often, a few far more often than the rest.

-- setup
CREATE TABLE product (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, sold INTEGER NOT NULL, description TEXT NOT NULL);
INSERT INTO product SELECT i, 100 + (i * 7919) % 9900, 0, lpad(i::text, 240, '0') FROM generate_series(1, 60000) AS many (i);
CREATE TABLE sale (id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, product INTEGER NOT NULL, price INTEGER NOT NULL);

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
