"""A profile shown by https://ui.perfetto.dev, which asks this machine for the file."""

import http.server
import pathlib
from typing import Any


class _PerfettoHandler(http.server.SimpleHTTPRequestHandler):
    """Hands a file to Perfetto's page, which asks for it from another origin."""

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def do_GET(self) -> None:
        self.server.asked_for = self.path  # pyright: ignore
        super().do_GET()


_PERFETTO_PORT = 9001  # the only one on this machine that Perfetto's page may ask


def serve(path: pathlib.Path) -> None:
    """Print the address at which Perfetto's page shows a file, and wait until it has asked for it."""

    def handler(*args: Any) -> _PerfettoHandler:
        return _PerfettoHandler(*args, directory=str(path.parent))

    http.server.HTTPServer.allow_reuse_address = True
    with http.server.HTTPServer(("127.0.0.1", _PERFETTO_PORT), handler) as server:
        print(f"Open URL in browser: https://ui.perfetto.dev/#!/?url=http://127.0.0.1:{_PERFETTO_PORT}/{path.name}")
        while getattr(server, "asked_for", None) != f"/{path.name}":
            server.handle_request()
