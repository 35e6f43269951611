-- Built after the rows: sorted, hence packed.

ALTER TABLE lineitem ADD INDEX lineitem_by_shipdate (l_shipdate);
