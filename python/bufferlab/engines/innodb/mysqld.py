"""One MySQL or MariaDB process. This file knows no data, no accounts and no workload.

A private server listens on a Unix socket in a folder that only its user may enter, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.engines.innodb.failure import failure
from bufferlab.engines.innodb.option_file import option_file
from bufferlab.engines.servers.server_process import ServerProcess


class InnodbProcess(ServerProcess):
    """The process of a running server."""

    socket_name = "mysqld.sock"
    # The folder stands in the option file too. Here `ps` shows it, and a wrapper that keeps the server from reading
    # that file cannot send it to another server's data.
    arguments = ("--defaults-file={conf}", "--datadir={data}")
    failure = staticmethod(failure)

    def configuration(self, connections: int, settings: Mapping[str, str]) -> str:
        return option_file(self.build, self.data, self.home, self.socket, connections, settings)
