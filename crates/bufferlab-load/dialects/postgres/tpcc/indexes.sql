-- Built after the rows: sorted, hence packed.

ALTER TABLE item ADD PRIMARY KEY (i_id);

ALTER TABLE warehouse ADD PRIMARY KEY (w_id);

ALTER TABLE district ADD PRIMARY KEY (d_w_id, d_id);

ALTER TABLE stock ADD PRIMARY KEY (s_w_id, s_i_id);

ALTER TABLE customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id);

ALTER TABLE orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id);

ALTER TABLE new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id);

ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number);

-- Payment and Order-Status look customers up by last name, in the order of first names. With the number at its end, as
-- HammerDB's customer_i2 has it, the order needs no sort.
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first, c_id);

-- Order-Status looks for a customer's latest order; HammerDB's orders_i2.
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
