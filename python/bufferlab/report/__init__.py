"""Turns a sweep folder into answers for people and programs: HTML, Markdown with SVG, a terminal table, JSON, CSV, PDF.

`build` makes one document as pure data; every format is a view of it. Nothing here measures, and all of it can be made
again from the stored samples. Percent exists only in this package.
"""
