-- Look-ups beside scans of two tables, of which two may run at once.

-- setup
CREATE TABLE customer (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, data TEXT NOT NULL);
INSERT INTO customer SELECT i, (i::bigint * 7907) % 10000, lpad(i::text, 400, 'c') FROM generate_series(1, 120000) AS many (i);
CREATE TABLE history (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, note TEXT NOT NULL);
INSERT INTO history SELECT i, (i::bigint * 7919) % 5000, lpad(i::text, 160, 'h') FROM generate_series(1, 300000) AS many (i);

-- transaction: look weight=398
\set rank random_zipfian(1, 120000, 0.7)
\set customer 1 + (:rank * 7907) % 120000
SELECT balance, data FROM customer WHERE id = :customer;

-- transaction: scan_history weight=1
\set least random(0, 4999)
SELECT count(*) FROM history WHERE amount >= :least;

-- transaction: scan_customer weight=1
\set least random(0, 9999)
SELECT count(*) FROM customer WHERE balance >= :least;
