"""bufferlab: a laboratory for database buffer pools and the storage under them.

`import bufferlab as bl` gives the Python interface (docs/python.md). Each name is imported on first use, so that
`import bufferlab` and `bufferlab --help` stay quick. `__init__.pyi` has the types.
"""

__version__ = "0.1.0"

_MODULES = {
    "BufferlabError": "errors",
    "Comparison": "api.comparing",
    "Sweep": "api.sweep",
    "compare": "api.comparing",
    "curve": "api.traces",
    "predict": "api.running",
    "read": "api.sweep",
    "run": "api.running",
    "trace": "api.traces",
}
"""Name in the Python interface -> the module that defines it."""
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    """Import and return the interface's object of this name. Raise AttributeError for another name."""
    if name not in _MODULES:
        raise AttributeError(f"module 'bufferlab' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"bufferlab.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """Return the names that the interface offers."""
    return sorted(__all__)
