-- Built after the rows: sorted, hence packed.

CREATE INDEX lineitem_by_shipdate ON lineitem (l_shipdate);
