"""``serve``: look at a built site on this machine only."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from selectivbench.errors import UsageError, explain


def server(site: Path, port: int) -> ThreadingHTTPServer:
    """A server bound to the loopback address; port 0 takes any free one."""
    if not (site / "index.html").is_file():
        raise UsageError(
            explain("site", str(site), "a built site", "python -m leaderboard build first")
        )
    if not 0 <= port < 65536:
        raise UsageError(explain("port", port, "0 to 65535"))
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    return ThreadingHTTPServer(("127.0.0.1", port), handler)
