"""The building blocks of a report's chapters: the analysis of a sweep; functions for tables, figures and words."""
