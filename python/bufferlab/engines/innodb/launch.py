"""Becomes a server: `python -I -S launch.py PARENT UID GID PROGRAM ARGUMENT...`; UID and GID -1: stay who we are.

A file to be run, never imported. Between bufferlab and the server there must be a moment in which the new process gives
up root and asks the kernel to end it with its parent; Python's preexec_fn is unsafe in a process with threads, and this
one has none. The death signal comes last, because a change of user clears it (prctl(2)); execve keeps it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Change user, ask for the death signal, see that the parent still lives, and become the program."""
    parent, uid, gid = (int(text) for text in sys.argv[1:4])
    program = sys.argv[4:]
    if uid >= 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent ended before the server began")
    # The worker blocks these in its threads; the server must hear of them.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o077)
    try:
        os.execv(program[0], program)
    except OSError as error:
        sys.exit(f"{program[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
