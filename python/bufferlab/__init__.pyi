from bufferlab.api.comparing import Comparison as Comparison
from bufferlab.api.comparing import compare as compare
from bufferlab.api.running import predict as predict
from bufferlab.api.running import run as run
from bufferlab.api.sweep import Sweep as Sweep
from bufferlab.api.sweep import read as read
from bufferlab.api.traces import curve as curve
from bufferlab.api.traces import trace as trace
from bufferlab.errors import BufferlabError as BufferlabError

__version__: str
