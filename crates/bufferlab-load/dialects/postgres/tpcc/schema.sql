-- TPC-C's nine tables for PostgreSQL, columns in the order of bufferlab-workload's tpcc::schema, types and nullability as in the
-- dialect for MySQL, which are tpcc-mysql's; TINYINT, which is not known here, is SMALLINT. Money is NUMERIC, so that sums are
-- exact and rows have the size that a user's would have. Names are compared by bytes: they sort alike on every engine.
-- No keys here: they are built after the rows (indexes.sql). No foreign keys: a measured run never violates them, and checking
-- them would read pages of its own.

CREATE TABLE item (
  i_id INTEGER NOT NULL,
  i_im_id INTEGER,
  i_name VARCHAR(24),
  i_price NUMERIC(5, 2),
  i_data VARCHAR(50)
);

CREATE TABLE warehouse (
  w_id SMALLINT NOT NULL,
  w_name VARCHAR(10),
  w_street_1 VARCHAR(20),
  w_street_2 VARCHAR(20),
  w_city VARCHAR(20),
  w_state CHAR(2),
  w_zip CHAR(9),
  w_tax NUMERIC(4, 4),
  w_ytd NUMERIC(12, 2)
);

CREATE TABLE district (
  d_w_id SMALLINT NOT NULL,
  d_id SMALLINT NOT NULL,
  d_name VARCHAR(10),
  d_street_1 VARCHAR(20),
  d_street_2 VARCHAR(20),
  d_city VARCHAR(20),
  d_state CHAR(2),
  d_zip CHAR(9),
  d_tax NUMERIC(4, 4),
  d_ytd NUMERIC(12, 2),
  d_next_o_id INTEGER
);

CREATE TABLE stock (
  s_w_id SMALLINT NOT NULL,
  s_i_id INTEGER NOT NULL,
  s_quantity SMALLINT,
  s_dist_01 CHAR(24),
  s_dist_02 CHAR(24),
  s_dist_03 CHAR(24),
  s_dist_04 CHAR(24),
  s_dist_05 CHAR(24),
  s_dist_06 CHAR(24),
  s_dist_07 CHAR(24),
  s_dist_08 CHAR(24),
  s_dist_09 CHAR(24),
  s_dist_10 CHAR(24),
  s_ytd INTEGER,
  s_order_cnt SMALLINT,
  s_remote_cnt SMALLINT,
  s_data VARCHAR(50)
);

CREATE TABLE customer (
  c_w_id SMALLINT NOT NULL,
  c_d_id SMALLINT NOT NULL,
  c_id INTEGER NOT NULL,
  c_first VARCHAR(16) COLLATE "C",
  c_middle CHAR(2),
  c_last VARCHAR(16) COLLATE "C",
  c_street_1 VARCHAR(20),
  c_street_2 VARCHAR(20),
  c_city VARCHAR(20),
  c_state CHAR(2),
  c_zip CHAR(9),
  c_phone CHAR(16),
  c_since TIMESTAMP,
  c_credit CHAR(2),
  c_credit_lim NUMERIC(16, 2),
  c_discount NUMERIC(4, 4),
  c_balance NUMERIC(12, 2),
  c_ytd_payment NUMERIC(12, 2),
  c_payment_cnt SMALLINT,
  c_delivery_cnt SMALLINT,
  c_data VARCHAR(500)
);

CREATE TABLE history (
  h_c_id INTEGER,
  h_c_d_id SMALLINT,
  h_c_w_id SMALLINT,
  h_d_id SMALLINT,
  h_w_id SMALLINT,
  h_date TIMESTAMP,
  h_amount NUMERIC(6, 2),
  h_data VARCHAR(24)
);

CREATE TABLE orders (
  o_w_id SMALLINT NOT NULL,
  o_d_id SMALLINT NOT NULL,
  o_id INTEGER NOT NULL,
  o_c_id INTEGER,
  o_entry_d TIMESTAMP,
  o_carrier_id SMALLINT,
  o_ol_cnt SMALLINT,
  o_all_local SMALLINT
);

CREATE TABLE new_order (
  no_w_id SMALLINT NOT NULL,
  no_d_id SMALLINT NOT NULL,
  no_o_id INTEGER NOT NULL
);

CREATE TABLE order_line (
  ol_w_id SMALLINT NOT NULL,
  ol_d_id SMALLINT NOT NULL,
  ol_o_id INTEGER NOT NULL,
  ol_number SMALLINT NOT NULL,
  ol_i_id INTEGER,
  ol_supply_w_id SMALLINT,
  ol_delivery_d TIMESTAMP,
  ol_quantity SMALLINT,
  ol_amount NUMERIC(6, 2),
  ol_dist_info CHAR(24)
);
