"""The lab report on A4: the report of a sweep in the chapters that a course or a paper requires, as a PDF by Typst.

It has the sentences, tables and figures of the other reports, in another order, and the method in sentences.
"""
