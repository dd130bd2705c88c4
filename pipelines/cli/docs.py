"""posttrain docs: the guides as a site, reachable from this machine only, or as files."""

from __future__ import annotations

import argparse
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from components.runtime.store.access import local_cache
from pipelines.cli.stopping import terminate_like_interrupt
from pipelines.docs.site import build_into, cached

HOST = "127.0.0.1"


def docs(arguments: argparse.Namespace) -> int:
    """Build the site, and serve it until Ctrl-C; with --build, only write its files."""
    terminate_like_interrupt()
    if arguments.build:
        folder = Path(arguments.build)
        build_into(folder)
        print(visible_line(str(folder / "index.html")))
        return 0
    site = cached(local_cache() / "docs")
    try:
        server = ThreadingHTTPServer((HOST, arguments.port or 0), partial(_Pages, directory=str(site)))
    except OSError as error:
        raise InputError(f"port {arguments.port}: {error.strerror}; without --port a free one is taken") from None
    with server:
        print(f"docs: http://{HOST}:{server.server_port}/  (Ctrl-C ends it)", flush=True)
        server.serve_forever()
    return 0


class _Pages(SimpleHTTPRequestHandler):
    """Serves files; says nothing of each request, and lists no folders."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def list_directory(self, path: Any) -> None:
        self.send_error(404)
