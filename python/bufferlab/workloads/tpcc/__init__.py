"""TPC-C, revision 5.11, as a load driver: results are derived from it, not comparable with published ones."""
