"""Parsers of other tools' text: tpcc-mysql, SHOW ENGINE INNODB STATUS, iostat, tables. They judge nothing."""
