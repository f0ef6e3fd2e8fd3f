"""The process that opens what strangers wrote: root in a user namespace, nobody outside. `maps.do` starts it.

Nothing here is imported later than at its start: afterwards it may see no file of the host. It imports the standard
library alone, so that it starts quickly.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from ringfence.fence.runtimes.native import archive, copying
from ringfence.fence.runtimes.native.layer import Refused

CLONE_NEWUSER, PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 0x10000000, 1, 38
MEMORY = 2 << 30
ACTS: dict[str, Callable[[list[int], dict[str, Any]], dict[str, Any]]] = {
    "unpack": archive.unpack,
    "copy": copying.copy,
    "remove": copying.remove,
}
_FULL = (errno.ENOSPC, errno.EDQUOT)


def main() -> None:
    act, control = ACTS[sys.argv[1]], socket.socket(fileno=int(sys.argv[2]))
    _become_nobody(control)
    asked = json.loads(_all_of(control))
    try:
        answer = act([int(word) for word in sys.argv[3:]], asked)
    except Refused as error:
        answer = {"refused": error.kind, "why": str(error)}
    except (MemoryError, RecursionError):
        answer = {"refused": "invalid", "why": "a header in it is larger, or nested deeper, than is taken here"}
    except OSError as error:
        kind = "full" if error.errno in _FULL else "invalid"
        answer = {"refused": kind, "why": f"{_shown(error.filename)}{error.strerror}"}
    control.sendall(json.dumps(answer).encode())


def _become_nobody(control: socket.socket) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "a user namespace")
    control.sendall(b"?")
    if not control.recv(1, socket.MSG_PEEK):
        sys.exit(1)  # whoever asked is gone
    with contextlib.suppress(PermissionError):  # with a single id they cannot be changed, and mean nothing
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.umask(0o022)


def _all_of(control: socket.socket) -> bytes:
    asked = b""
    while chunk := control.recv(1 << 16):
        asked += chunk
    return asked


def _shown(name: object) -> str:
    return "" if name is None else f"{os.fsdecode(str(name))[-200:]!r}: "


if __name__ == "__main__":
    main()
