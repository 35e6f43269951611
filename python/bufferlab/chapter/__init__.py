"""The building blocks of a report's chapters: the analysis of a sweep, and its tables, figures and words."""
