"""The data of a finished measurement: metrics, schema, store, derived values and integrity checks.

Nothing here runs a database or draws a picture; `execute` writes through it and `report` reads through it.
"""
