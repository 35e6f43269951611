-- Look-ups in one table, and now and then a query that reads all of another one, of 56 MiB.

-- setup
CREATE TABLE customer (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, data TEXT NOT NULL);
INSERT INTO customer SELECT i, (i::bigint * 7907) % 10000, lpad(i::text, 400, 'c') FROM generate_series(1, 150000) AS many (i);
CREATE TABLE history (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, note TEXT NOT NULL);
INSERT INTO history SELECT i, (i::bigint * 7919) % 5000, lpad(i::text, 160, 'h') FROM generate_series(1, 280000) AS many (i);

-- transaction: look weight=299
\set rank random_zipfian(1, 150000, 0.7)
\set customer 1 + (:rank * 7907) % 150000
SELECT balance, data FROM customer WHERE id = :customer;

-- transaction: scan weight=1
\set least random(0, 4999)
SELECT count(*) FROM history WHERE amount >= :least;
