"""Serves a folder to browsers of this machine, until Ctrl-C.

    python web/serve.py FOLDER PORT [PAGE]

PAGE is where in the folder the address leads that is printed.
"""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(SimpleHTTPRequestHandler):
    """Serves files, and prints of requests only those that fail."""

    def log_request(self, *_: object) -> None:
        """Print nothing."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of a folder; exits with what to do if the port cannot be had."""
    if port > 65535:
        sys.exit(f"there is no port {port}: take one up to 65535")
    handler = partial(Handler, directory=str(folder))
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        sys.exit(f"port {port} cannot be had: {error.strerror}; take another, say PORT={port + 1}")


def main(folder: str, port: str, page: str = "") -> None:
    """Serve until Ctrl-C."""
    if not port.isdecimal():
        sys.exit(f"'{port}' is no port: take a number, say PORT=8000")
    with server(Path(folder), int(port)) as pages:
        print(f"http://127.0.0.1:{pages.server_port}/{page} (Ctrl-C ends it)", flush=True)
        try:
            pages.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main(*sys.argv[1:])
