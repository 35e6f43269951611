"""The compiled functions of scipy.special, loaded without the rest of the package."""

from __future__ import annotations

import subprocess
import sys

_LATER = """
from bufferlab.stats import special
import scipy.optimize, scipy.special
names = [name for name in ("chdtri", "fdtrc", "ndtr", "nctdtrinc", "stdtr", "stdtrit")
         if getattr(special, name)(*(0.3,) * getattr(special, name).nin)
         != getattr(scipy.special, name)(*(0.3,) * getattr(special, name).nin)]
print(names, hasattr(scipy.special, "gammaln"))
"""


def test_the_functions_are_those_of_the_package_which_can_be_loaded_later() -> None:
    done = subprocess.run([sys.executable, "-c", _LATER], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True\n"
