"""Holds scipy.special's compiled functions, loaded without the rest of that package.

The package wraps each function for other libraries of arrays. For that it loads numpy's compilers, tests and masked
arrays, which take longer than all else that a quantile needs.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType


def _functions() -> ModuleType:
    """Return the module of the compiled functions; the whole package where it has no such module."""
    name = "scipy.special"
    if name not in sys.modules:
        import scipy

        bare = ModuleType(name)
        bare.__path__ = [str(Path(scipy.__file__).with_name("special"))]
        sys.modules[name] = bare
        try:
            return import_module(f"{name}._ufuncs")
        except ImportError:  # Of another version of scipy.
            pass
        finally:
            del sys.modules[name]  # Who imports the package gets all of it.
    return import_module(name)


_found = _functions()
chdtri, fdtrc, ndtr, nctdtrinc, stdtr, stdtrit = (
    getattr(_found, name) for name in ("chdtri", "fdtrc", "ndtr", "nctdtrinc", "stdtr", "stdtrit")
)
