"""One child in an interpreter of its own, for CUDA (a forked child would lose the device).

Run as ``python -P -m selectivbench.sandbox.fresh FD FD DEVICE PACKAGE,PACKAGE LEVEL``, the two
descriptors being its channel and its warden's lifeline: forks the child while the process is small,
which imports what is slow and waits for its order, so it can be started one case ahead.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

from selectivbench.sandbox import paths, warden
from selectivbench.sandbox.child import serve
from selectivbench.sandbox.namespaces import open_way
from selectivbench.sandbox.preload import preload
from selectivbench.sandbox.protocol import Channel


def main(argv: list[str]) -> int:
    """Watch one child from its start to its end."""
    channel, lifeline = (socket.socket(fileno=int(number)) for number in argv[1:3])
    device, packages, level = argv[3], frozenset(argv[4].split(",")), int(argv[5])
    if os.geteuid() == 0:
        with suppress(OSError):  # then the child keeps this user, and the header says so
            open_way(paths.needed())

    def child(channel: Channel) -> None:
        preload(packages, device)
        serve(channel)

    warden.hold(channel, lifeline, level, child)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
