"""What chapters of a report are made of: the analysis of a sweep, and the tables, figures and words that tell it."""
