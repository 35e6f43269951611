-- Built after the rows: sorted, hence packed.

ALTER TABLE sbtest1 ADD PRIMARY KEY (id);

CREATE INDEX k_1 ON sbtest1 (k);
