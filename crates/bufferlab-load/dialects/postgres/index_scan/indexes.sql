-- Built after the rows: sorted, hence packed.

ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber);

CREATE INDEX lineitem_by_shipdate ON lineitem (l_shipdate);
