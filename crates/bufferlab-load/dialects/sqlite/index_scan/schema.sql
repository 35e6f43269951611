-- TPC-H's LINEITEM for SQLite, columns in the order of bufferlab-workload's index_scan::population, clustered on its primary
-- key (WITHOUT ROWID). Decimals are integer hundredths, dates are integer days since 1970.

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
