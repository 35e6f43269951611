"""The lab report on A4: the report of a sweep in the chapters that a course or a paper asks for, set by Typst as a PDF.

It shows the sentences, tables and figures of the other reports; it adds its order and the method in sentences.
"""
