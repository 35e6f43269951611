-- Look-ups in one table, and now and then a query that reads all of it: 84 MiB, more than a quarter of any pool that is
-- smaller than the table.

-- setup
CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, description TEXT NOT NULL);
INSERT INTO item SELECT i, 100 + (i::bigint * 7919) % 9900, lpad(i::text, 240, '0') FROM generate_series(1, 300000) AS many (i);

-- Hot items are scattered over the table.
-- transaction: look weight=399
\set rank random_zipfian(1, 300000, 0.8)
\set item 1 + (:rank * 7919) % 300000
SELECT price, description FROM item WHERE id = :item;

-- No index has the price.
-- transaction: scan weight=1
\set price random(100, 9999)
SELECT count(*) FROM item WHERE price = :price;
