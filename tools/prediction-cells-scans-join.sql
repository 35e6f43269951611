-- Look-ups, and now and then a join that reads two tables whole: one to build a hash, one to probe it.

-- setup
CREATE TABLE customer (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, data TEXT NOT NULL);
INSERT INTO customer SELECT i, (i::bigint * 7907) % 10000, lpad(i::text, 400, 'c') FROM generate_series(1, 100000) AS many (i);
CREATE TABLE history (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, amount INTEGER NOT NULL, note TEXT NOT NULL);
INSERT INTO history
SELECT i, 1 + (i::bigint * 7907) % 100000, (i::bigint * 7919) % 5000, lpad(i::text, 160, 'h')
FROM generate_series(1, 250000) AS many (i);

-- transaction: look weight=499
\set rank random_zipfian(1, 100000, 0.7)
\set customer 1 + (:rank * 7907) % 100000
SELECT balance, data FROM customer WHERE id = :customer;

-- transaction: join weight=1
\set least random(0, 4999)
SELECT count(*) FROM history JOIN customer ON customer.id = history.customer
WHERE history.amount >= :least AND customer.balance < 5000;
