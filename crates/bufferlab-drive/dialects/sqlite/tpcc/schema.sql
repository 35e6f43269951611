-- TPC-C's nine tables for SQLite, columns in the order of bufferlab-workload's tpcc::schema.
-- Each table is clustered on its primary key (WITHOUT ROWID); history has none and keeps its row ids.
-- Money is integer cents, rates are integer basis points, dates are integer microseconds since 1970.
-- No foreign keys: a measured run never violates them, and checking them would read pages of its own.

CREATE TABLE item (
  i_id    INTEGER NOT NULL,
  i_im_id INTEGER NOT NULL,
  i_name  TEXT NOT NULL,
  i_price INTEGER NOT NULL,
  i_data  TEXT NOT NULL,
  PRIMARY KEY (i_id)
) WITHOUT ROWID;

CREATE TABLE warehouse (
  w_id       INTEGER NOT NULL,
  w_name     TEXT NOT NULL,
  w_street_1 TEXT NOT NULL,
  w_street_2 TEXT NOT NULL,
  w_city     TEXT NOT NULL,
  w_state    TEXT NOT NULL,
  w_zip      TEXT NOT NULL,
  w_tax      INTEGER NOT NULL,
  w_ytd      INTEGER NOT NULL,
  PRIMARY KEY (w_id)
) WITHOUT ROWID;

CREATE TABLE district (
  d_w_id      INTEGER NOT NULL,
  d_id        INTEGER NOT NULL,
  d_name      TEXT NOT NULL,
  d_street_1  TEXT NOT NULL,
  d_street_2  TEXT NOT NULL,
  d_city      TEXT NOT NULL,
  d_state     TEXT NOT NULL,
  d_zip       TEXT NOT NULL,
  d_tax       INTEGER NOT NULL,
  d_ytd       INTEGER NOT NULL,
  d_next_o_id INTEGER NOT NULL,
  PRIMARY KEY (d_w_id, d_id)
) WITHOUT ROWID;

CREATE TABLE stock (
  s_w_id       INTEGER NOT NULL,
  s_i_id       INTEGER NOT NULL,
  s_quantity   INTEGER NOT NULL,
  s_dist_01    TEXT NOT NULL,
  s_dist_02    TEXT NOT NULL,
  s_dist_03    TEXT NOT NULL,
  s_dist_04    TEXT NOT NULL,
  s_dist_05    TEXT NOT NULL,
  s_dist_06    TEXT NOT NULL,
  s_dist_07    TEXT NOT NULL,
  s_dist_08    TEXT NOT NULL,
  s_dist_09    TEXT NOT NULL,
  s_dist_10    TEXT NOT NULL,
  s_ytd        INTEGER NOT NULL,
  s_order_cnt  INTEGER NOT NULL,
  s_remote_cnt INTEGER NOT NULL,
  s_data       TEXT NOT NULL,
  PRIMARY KEY (s_w_id, s_i_id)
) WITHOUT ROWID;

CREATE TABLE customer (
  c_w_id         INTEGER NOT NULL,
  c_d_id         INTEGER NOT NULL,
  c_id           INTEGER NOT NULL,
  c_first        TEXT NOT NULL,
  c_middle       TEXT NOT NULL,
  c_last         TEXT NOT NULL,
  c_street_1     TEXT NOT NULL,
  c_street_2     TEXT NOT NULL,
  c_city         TEXT NOT NULL,
  c_state        TEXT NOT NULL,
  c_zip          TEXT NOT NULL,
  c_phone        TEXT NOT NULL,
  c_since        INTEGER NOT NULL,
  c_credit       TEXT NOT NULL,
  c_credit_lim   INTEGER NOT NULL,
  c_discount     INTEGER NOT NULL,
  c_balance      INTEGER NOT NULL,
  c_ytd_payment  INTEGER NOT NULL,
  c_payment_cnt  INTEGER NOT NULL,
  c_delivery_cnt INTEGER NOT NULL,
  c_data         TEXT NOT NULL,
  PRIMARY KEY (c_w_id, c_d_id, c_id)
) WITHOUT ROWID;

CREATE TABLE history (
  h_c_id   INTEGER NOT NULL,
  h_c_d_id INTEGER NOT NULL,
  h_c_w_id INTEGER NOT NULL,
  h_d_id   INTEGER NOT NULL,
  h_w_id   INTEGER NOT NULL,
  h_date   INTEGER NOT NULL,
  h_amount INTEGER NOT NULL,
  h_data   TEXT NOT NULL
);

CREATE TABLE orders (
  o_w_id       INTEGER NOT NULL,
  o_d_id       INTEGER NOT NULL,
  o_id         INTEGER NOT NULL,
  o_c_id       INTEGER NOT NULL,
  o_entry_d    INTEGER NOT NULL,
  o_carrier_id INTEGER,
  o_ol_cnt     INTEGER NOT NULL,
  o_all_local  INTEGER NOT NULL,
  PRIMARY KEY (o_w_id, o_d_id, o_id)
) WITHOUT ROWID;

CREATE TABLE new_order (
  no_w_id INTEGER NOT NULL,
  no_d_id INTEGER NOT NULL,
  no_o_id INTEGER NOT NULL,
  PRIMARY KEY (no_w_id, no_d_id, no_o_id)
) WITHOUT ROWID;

CREATE TABLE order_line (
  ol_w_id        INTEGER NOT NULL,
  ol_d_id        INTEGER NOT NULL,
  ol_o_id        INTEGER NOT NULL,
  ol_number      INTEGER NOT NULL,
  ol_i_id        INTEGER NOT NULL,
  ol_supply_w_id INTEGER NOT NULL,
  ol_delivery_d  INTEGER,
  ol_quantity    INTEGER NOT NULL,
  ol_amount      INTEGER NOT NULL,
  ol_dist_info   TEXT NOT NULL,
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)
) WITHOUT ROWID;

-- Payment and Order-Status look customers up by last name, in the order of first names.
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first, c_id);

-- Order-Status looks for a customer's latest order.
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
