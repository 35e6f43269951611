-- Built after the rows: sorted, hence packed, and without a page of theirs in the pool meanwhile.

-- Payment and Order-Status look customers up by last name, in the order of first names; tpcc-mysql's idx_customer.
ALTER TABLE customer ADD INDEX customer_by_name (c_w_id, c_d_id, c_last, c_first);

-- Order-Status looks for a customer's latest order; tpcc-mysql's idx_orders.
ALTER TABLE orders ADD INDEX orders_by_customer (o_w_id, o_d_id, o_c_id, o_id);
