-- sysbench's table for servers, columns in the order of bufferlab-workload's hot_rows::population.
-- One byte a character, as sysbench's texts are digits: a record has the size it has with the servers' old default.

CREATE TABLE sbtest1 (
  id  INT NOT NULL,
  k   INT NOT NULL DEFAULT 0,
  c   CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT '',
  PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET latin1 COLLATE latin1_bin;
