"""TPC-H's Q1 over an index on the ship date, against the other plans."""
