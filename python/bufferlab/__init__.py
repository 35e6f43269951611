"""bufferlab: a laboratory for database buffer pools and the storage under them.

`import bufferlab as bl` is its Python interface (docs/python.md). A function is imported when it is first asked for,
so that `import bufferlab` and `bufferlab --help` stay quick. `__init__.pyi` has their types.
"""

__version__ = "0.1.0"

__all__ = ["BufferlabError", "Sweep", "__version__", "curve", "read", "trace"]


def __getattr__(name: str) -> object:
    """Import what the interface offers under this name."""
    if name not in __all__:
        raise AttributeError(f"module 'bufferlab' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("bufferlab.api"), name)


def __dir__() -> list[str]:
    """Return the names that the interface offers."""
    return sorted(__all__)
