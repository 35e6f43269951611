-- TPC-H's other tables for SQLite, which Q1 does not read; see schema.sql for the types.

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

