-- Primary keys of the other tables, built after their rows.

ALTER TABLE region ADD PRIMARY KEY (r_regionkey);

ALTER TABLE nation ADD PRIMARY KEY (n_nationkey);

ALTER TABLE supplier ADD PRIMARY KEY (s_suppkey);

ALTER TABLE part ADD PRIMARY KEY (p_partkey);

ALTER TABLE partsupp ADD PRIMARY KEY (ps_partkey, ps_suppkey);

ALTER TABLE customer ADD PRIMARY KEY (c_custkey);

ALTER TABLE orders ADD PRIMARY KEY (o_orderkey);

