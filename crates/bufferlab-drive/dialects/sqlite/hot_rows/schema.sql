-- sysbench's table for SQLite, columns in the order of bufferlab-workload's hot_rows::population.
-- An integer key makes the table's b-tree the clustered index, as sysbench's is on InnoDB.

CREATE TABLE sbtest1 (
  id  INTEGER PRIMARY KEY,
  k   INTEGER NOT NULL,
  c   CHAR(120) NOT NULL,
  pad CHAR(60) NOT NULL
);

CREATE INDEX k_1 ON sbtest1 (k);
