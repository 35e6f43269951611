-- sysbench's table for PostgreSQL, columns in the order of bufferlab-workload's hot_rows::population. Texts of CHAR are stored
-- with their blanks: a row is as long as sysbench's own.

CREATE TABLE sbtest1 (
  id  INTEGER NOT NULL,
  k   INTEGER NOT NULL DEFAULT 0,
  c   CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT ''
);
