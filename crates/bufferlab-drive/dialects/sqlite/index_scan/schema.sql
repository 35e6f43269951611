-- TPC-H's tables for SQLite, columns in the order of bufferlab-workload's index_scan::tables, clustered on their primary keys
-- (WITHOUT ROWID). Decimals are integer hundredths, dates are integer days since 1970. Q1 reads the last table; a load makes
-- those that it is asked for.

CREATE TABLE region (
  r_regionkey INTEGER NOT NULL,
  r_name      TEXT NOT NULL,
  r_comment   TEXT NOT NULL,
  PRIMARY KEY (r_regionkey)
) WITHOUT ROWID;

CREATE TABLE nation (
  n_nationkey INTEGER NOT NULL,
  n_name      TEXT NOT NULL,
  n_regionkey INTEGER NOT NULL,
  n_comment   TEXT NOT NULL,
  PRIMARY KEY (n_nationkey)
) WITHOUT ROWID;

CREATE TABLE supplier (
  s_suppkey   INTEGER NOT NULL,
  s_name      TEXT NOT NULL,
  s_address   TEXT NOT NULL,
  s_nationkey INTEGER NOT NULL,
  s_phone     TEXT NOT NULL,
  s_acctbal   INTEGER NOT NULL,
  s_comment   TEXT NOT NULL,
  PRIMARY KEY (s_suppkey)
) WITHOUT ROWID;

CREATE TABLE part (
  p_partkey     INTEGER NOT NULL,
  p_name        TEXT NOT NULL,
  p_mfgr        TEXT NOT NULL,
  p_brand       TEXT NOT NULL,
  p_type        TEXT NOT NULL,
  p_size        INTEGER NOT NULL,
  p_container   TEXT NOT NULL,
  p_retailprice INTEGER NOT NULL,
  p_comment     TEXT NOT NULL,
  PRIMARY KEY (p_partkey)
) WITHOUT ROWID;

CREATE TABLE partsupp (
  ps_partkey    INTEGER NOT NULL,
  ps_suppkey    INTEGER NOT NULL,
  ps_availqty   INTEGER NOT NULL,
  ps_supplycost INTEGER NOT NULL,
  ps_comment    TEXT NOT NULL,
  PRIMARY KEY (ps_partkey, ps_suppkey)
) WITHOUT ROWID;

CREATE TABLE customer (
  c_custkey    INTEGER NOT NULL,
  c_name       TEXT NOT NULL,
  c_address    TEXT NOT NULL,
  c_nationkey  INTEGER NOT NULL,
  c_phone      TEXT NOT NULL,
  c_acctbal    INTEGER NOT NULL,
  c_mktsegment TEXT NOT NULL,
  c_comment    TEXT NOT NULL,
  PRIMARY KEY (c_custkey)
) WITHOUT ROWID;

CREATE TABLE orders (
  o_orderkey      INTEGER NOT NULL,
  o_custkey       INTEGER NOT NULL,
  o_orderstatus   TEXT NOT NULL,
  o_totalprice    INTEGER NOT NULL,
  o_orderdate     INTEGER NOT NULL,
  o_orderpriority TEXT NOT NULL,
  o_clerk         TEXT NOT NULL,
  o_shippriority  INTEGER NOT NULL,
  o_comment       TEXT NOT NULL,
  PRIMARY KEY (o_orderkey)
) WITHOUT ROWID;

CREATE TABLE lineitem (
  l_orderkey      INTEGER NOT NULL,
  l_partkey       INTEGER NOT NULL,
  l_suppkey       INTEGER NOT NULL,
  l_linenumber    INTEGER NOT NULL,
  l_quantity      INTEGER NOT NULL,
  l_extendedprice INTEGER NOT NULL,
  l_discount      INTEGER NOT NULL,
  l_tax           INTEGER NOT NULL,
  l_returnflag    TEXT NOT NULL,
  l_linestatus    TEXT NOT NULL,
  l_shipdate      INTEGER NOT NULL,
  l_commitdate    INTEGER NOT NULL,
  l_receiptdate   INTEGER NOT NULL,
  l_shipinstruct  TEXT NOT NULL,
  l_shipmode      TEXT NOT NULL,
  l_comment       TEXT NOT NULL,
  PRIMARY KEY (l_orderkey, l_linenumber)
) WITHOUT ROWID;

CREATE INDEX lineitem_by_shipdate ON lineitem (l_shipdate);
