"""An HTTP/1.1 hop between client and daemon that may change what passes, to show what the checks catch."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

FORWARDED = ("Content-Type", "Connect-Protocol-Version", "Authorization", "Plimsoll-Request-Id", "Accept-Encoding")


@dataclass
class Exchange:
    """One call: the decoded request on the way in, the decoded answer with its headers on the way back."""

    request: dict[str, Any]
    status: int = 0
    answer: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


Change = Callable[[Exchange], None]


def unchanged(_exchange: Exchange) -> None:
    """Lets the call pass as it is."""


class Proxy:
    """Forwards every POST to one daemon; `on_request` and `on_answer` may change the exchange."""

    def __init__(self, address: str, *, on_request: Change = unchanged, on_answer: Change = unchanged) -> None:
        """Listens on a free port of 127.0.0.1."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                exchange = Exchange(json.loads(body))
                on_request(exchange)
                upstream = http.client.HTTPConnection(address, timeout=60)
                kept = {name: self.headers[name] for name in FORWARDED if name in self.headers}
                upstream.request("POST", self.path, json.dumps(exchange.request), kept)
                response = upstream.getresponse()
                exchange.status = response.status
                exchange.headers = dict(response.getheaders())
                exchange.answer = json.loads(response.read())
                upstream.close()
                on_answer(exchange)
                self.send_response(exchange.status)
                content = json.dumps(exchange.answer).encode()
                for name, value in exchange.headers.items():
                    if name.lower() not in ("content-length", "connection", "date", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Proxy:
        """Starts serving."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
