-- Built after the rows: sorted, hence packed.

ALTER TABLE sbtest1 ADD INDEX k_1 (k);
