"""One child in an interpreter of its own, for CUDA (a forked child would lose the device).

Run as ``python -m selectivbench.sandbox.fresh FD DEVICE PACKAGE,PACKAGE``: imports what is slow,
then waits for its order, so it can be started one case ahead.
"""

from __future__ import annotations

import socket
import sys

from selectivbench.sandbox.child import serve
from selectivbench.sandbox.preload import preload
from selectivbench.sandbox.protocol import Channel

if __name__ == "__main__":
    preload(frozenset(sys.argv[3].split(",")), sys.argv[2])
    serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
