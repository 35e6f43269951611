-- Built after the rows: sorted, hence packed.

CREATE INDEX k_1 ON sbtest1 (k);
