"""The data of a finished measurement: metrics, schema, store, derived values and integrity checks.

Nothing here runs a database or draws a figure. `execute` writes results through this package, `report` reads them.
"""
