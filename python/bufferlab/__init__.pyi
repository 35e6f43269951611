from bufferlab.api import BufferlabError as BufferlabError
from bufferlab.api import Sweep as Sweep
from bufferlab.api import curve as curve
from bufferlab.api import read as read
from bufferlab.api import trace as trace

__version__: str
