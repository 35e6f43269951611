"""TPC-C, revision 5.11, as a load driver. Its results are not comparable with published TPC-C results."""
