"""Random selects from a fixed set of hot rows in sysbench's table."""
