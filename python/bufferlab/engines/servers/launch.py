"""Starts a server safely: `python -I -S launch.py PARENT UID GID OWN GROUP GATE PROGRAM ARGUMENT...`.

UID and GID are those of the server; -1 keeps the user. OWN is the sum of the namespaces to enter. 1: a new IPC
namespace with a separate /dev/shm, so that the kernel removes all shared memory, System V's and POSIX's, together with
the server. 2: a new network namespace, whose only device is a loopback that is down. GROUP: the cgroup.procs of the
group to join, or "-". GATE: a descriptor from which to read one byte before the program begins, or -1. A variable whose
name begins with BUFFERLAB_LATER_ loses that prefix when the program begins.

This file is run, never imported. Between bufferlab and the server, a new process must give up root and ask the kernel
to end it with its parent. Python's preexec_fn is unsafe in a process with threads; this process has none. The death
signal is requested last, because a change of user clears it (prctl(2)); execve keeps it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_OWN_IPC, _OWN_NET = 1, 2
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_SLAVE = 0x2, 0x4, 0x8, 0x80000
_SHM = b"/dev/shm"
_LATER = "BUFFERLAB_LATER_"


def main() -> None:
    """Join the group, change user, request the death signal, check that the parent lives, and execute the program."""
    parent, uid, gid, own = (int(text) for text in sys.argv[1:5])
    group, gate, program = sys.argv[5], int(sys.argv[6]), sys.argv[7:]
    libc = ctypes.CDLL(None, use_errno=True)
    if group != "-":
        _write(group, "0")  # In cgroup.procs, 0 means the process that writes.
    if own:
        _leave(libc, own)
    if uid >= 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent ended before the server began")
    # The worker blocks signals in its threads, but the server must receive them.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o077)
    if gate >= 0:
        if not os.read(gate, 1):
            sys.exit("the parent gave up before the server began")
        os.close(gate)
    # Rename these variables only after the change of user. They load a library, and a user who can write that library
    # must not gain the rights of this process, which may be root.
    for name in [name for name in os.environ if name.startswith(_LATER)]:
        os.environ[name.removeprefix(_LATER)] = os.environ.pop(name)
    try:
        os.execv(program[0], program)
    except OSError as error:
        sys.exit(f"{program[0]} cannot be run: {error.strerror}")


def _leave(libc: ctypes.CDLL, own: int) -> None:
    """Enter the new namespaces (unshare(2)).

    Without root this needs a user namespace as well, in which the user stays the same.
    """
    uid, gid = os.geteuid(), os.getegid()
    flags = _CLONE_NEWUSER if uid != 0 else 0
    flags |= _CLONE_NEWIPC | _CLONE_NEWNS if own & _OWN_IPC else 0
    flags |= _CLONE_NEWNET if own & _OWN_NET else 0
    _must(libc.unshare(flags), "there are no namespaces for us")
    if uid != 0:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    if own & _OWN_IPC:
        _mount_shm(libc)


def _mount_shm(libc: ctypes.CDLL) -> None:
    if os.path.isdir(_SHM):
        # If the mount that holds /dev/shm is a slave, the host does not see this process's mount. In a chroot, / may
        # not be a mount.
        if all(libc.mount(None, place, None, _MS_SLAVE, None) != 0 for place in (_SHM, b"/dev", b"/")):
            sys.exit("no mount above /dev/shm can be made a slave")
        options = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        _must(libc.mount(b"tmpfs", _SHM, b"tmpfs", options, b"mode=1777"), "/dev/shm cannot be mounted")


def _must(result: int, what: str) -> None:
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        sys.exit(f"{path} cannot be written: {error.strerror}")


if __name__ == "__main__":
    main()
