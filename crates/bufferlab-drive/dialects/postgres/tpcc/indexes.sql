-- Built after the rows: sorted, hence packed.

-- Payment and Order-Status look customers up by last name, in the order of first names. With the number at its end, as
-- HammerDB's customer_i2 has it, the order needs no sort.
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first, c_id);

-- Order-Status looks for a customer's latest order; HammerDB's orders_i2.
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
