-- TPC-H's LINEITEM for MySQL and MariaDB, columns in the order of bufferlab-workload's index_scan::population, types of the
-- specification's dss.ddl.
-- One byte a character, compared by bytes. No foreign keys: the other tables are not there.

CREATE TABLE lineitem (
  l_orderkey INT NOT NULL,
  l_partkey INT NOT NULL,
  l_suppkey INT NOT NULL,
  l_linenumber INT NOT NULL,
  l_quantity DECIMAL(15, 2) NOT NULL,
  l_extendedprice DECIMAL(15, 2) NOT NULL,
  l_discount DECIMAL(15, 2) NOT NULL,
  l_tax DECIMAL(15, 2) NOT NULL,
  l_returnflag CHAR(1) NOT NULL,
  l_linestatus CHAR(1) NOT NULL,
  l_shipdate DATE NOT NULL,
  l_commitdate DATE NOT NULL,
  l_receiptdate DATE NOT NULL,
  l_shipinstruct CHAR(25) NOT NULL,
  l_shipmode CHAR(10) NOT NULL,
  l_comment VARCHAR(44) NOT NULL,
  PRIMARY KEY (l_orderkey, l_linenumber)
) ENGINE = InnoDB DEFAULT CHARACTER SET latin1 COLLATE latin1_bin;
