"""A page of this computer that shows what boards do: one HTML file, and facts as they come.

It is served on 127.0.0.1 alone, to requests that name this host. So a page of another site cannot
read it by a name of its own that leads here (DNS rebinding). Facts are server-sent events (HTML
Living Standard, 9.2). Nothing can be changed by it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from importlib import resources
from typing import Any

from mcutrain_host.errors import HostError
from mcutrain_host.live.facts import LiveFacts
from mcutrain_host.live.rows import class_text, curve_texts, rows, share, title
from mcutrain_host.packages import OPTIONAL

HOST = "127.0.0.1"
POLL_SECONDS = 0.1
"""How often a stream looks whether there is something new."""
ALIVE_SECONDS = 15.0
"""How often an idle stream sends a comment, by which a closed tab is found."""
MOST_STREAMS = 32
STOP_SECONDS = 5.0
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


def check_installed() -> None:
    """Raise HostError if the server is not installed."""
    if not OPTIONAL["uvicorn"].is_installed:
        raise HostError(OPTIONAL["uvicorn"].missing)


class WebPage:
    """The page, while the context lasts. port: 0 takes a free one. Raises HostError."""

    def __init__(self, port: int = 0) -> None:
        check_installed()
        try:
            self._socket = socket.create_server((HOST, port))
        except OSError as error:
            raise HostError(
                f"port {port} of this computer cannot be taken: {error.strerror or error}; leave "
                "out --web-port to take a free one"
            ) from error
        self.port = int(self._socket.getsockname()[1])
        self._stream = Stream()

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.port}/"

    def show(self, boards: tuple[LiveFacts, ...]) -> None:
        """Send what is known now to all that look."""
        self._stream.publish(boards)

    def __enter__(self) -> WebPage:
        import uvicorn

        config = uvicorn.Config(
            Application(self.port, self._stream),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            loop="asyncio",
            http="h11",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.end()
        self._thread.join(2 * POLL_SECONDS)
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)
        self._socket.close()


class Stream:
    """The newest facts as text, for any number of readers in another thread."""

    def __init__(self) -> None:
        self.newest: tuple[int, str] = (0, snapshot(()))
        """A number that grows, and the text."""
        self.is_over = False
        self.readers = 0

    def publish(self, boards: tuple[LiveFacts, ...]) -> None:
        """Replace what is known."""
        self.newest = self.newest[0] + 1, snapshot(boards)

    def end(self) -> None:
        """Nothing new will come."""
        self.is_over = True


class Application:
    """The page's answers, for an ASGI server. port: where it is served."""

    def __init__(self, port: int, stream: Stream) -> None:
        self.stream = stream
        self._names = {f"{name}:{port}".encode() for name in (HOST, "localhost")}
        self._names |= {b"127.0.0.1", b"localhost"} if port == 80 else set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._names:
            await _text(send, 421, "this page is for the host that it is served on alone")
        elif scope["method"] not in ("GET", "HEAD"):
            await _text(send, 405, "it can be read only")
        elif scope["path"] == "/":
            await _answer(send, 200, "text/html; charset=utf-8", page(), _policy())
        elif scope["path"] != "/facts":
            await _text(send, 404, "there is no such page")
        elif self.stream.readers >= MOST_STREAMS:
            await _text(send, 503, "too many pages look at this; close some")
        else:
            await self._facts(receive, send)

    async def _facts(self, receive: Receive, send: Send) -> None:
        """Facts as they come, until the reader is gone or the run is over."""
        self.stream.readers += 1
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            headers = _headers("text/event-stream; charset=utf-8")
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send_news(gone, send)
        finally:
            gone.cancel()
            self.stream.readers -= 1

    async def _send_news(self, gone: asyncio.Future[None], send: Send) -> None:
        clock = asyncio.get_running_loop().time
        sent, at = -1, clock()
        while not gone.done():
            is_over = self.stream.is_over  # before the newest is taken, so that none is missed
            number, text = self.stream.newest
            if number != sent:
                await _part(send, f"event: facts\ndata: {text}\n\n")
                sent, at = number, clock()
            if is_over:
                await _part(send, "event: end\ndata: {}\n\n", is_last=True)
                return
            if clock() - at > ALIVE_SECONDS:
                await _part(send, ": still here\n\n")
                at = clock()
            await asyncio.wait({gone}, timeout=POLL_SECONDS)


def snapshot(boards: tuple[LiveFacts, ...]) -> str:
    """Return what the page draws, as JSON on one line."""
    return json.dumps({"boards": [_values(facts) for facts in boards]}, allow_nan=False)


def _values(facts: LiveFacts) -> dict[str, Any]:
    return {
        "source": facts.source,
        "title": title(facts),
        "state": facts.state,
        "doubt": facts.doubt,
        "share": share(facts),
        "rows": [[row.name, row.text] for row in rows(facts)],
        "curve": [[point.position, point.loss] for point in facts.curve],
        "axis": curve_texts(facts.curve) if facts.curve else [],
        "classes": [
            [each.name, each.steps, each.right, class_text(each.steps, each.right)]
            for each in facts.classes
        ],
    }


@lru_cache(maxsize=1)
def page() -> bytes:
    """The HTML file."""
    return resources.files("mcutrain_host.live").joinpath("page.html").read_bytes()


def _policy() -> Headers:
    """Content-Security-Policy: the page's own script and style, by hash, and facts from here."""
    text = page().decode()
    script, style = (_hash(text, tag) for tag in ("script", "style"))
    rules = (
        "default-src 'none'",
        f"script-src '{script}'",
        f"style-src '{style}'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return [(b"content-security-policy", "; ".join(rules).encode())]


def _hash(text: str, tag: str) -> str:
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _headers(kind: str) -> Headers:
    return [
        (b"content-type", kind.encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]


async def _text(send: Send, status: int, sentence: str) -> None:
    await _answer(send, status, "text/plain; charset=utf-8", f"{sentence}\n".encode(), [])


async def _answer(send: Send, status: int, kind: str, body: bytes, more: Headers) -> None:
    length = (b"content-length", str(len(body)).encode())
    headers = [*_headers(kind), length, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _part(send: Send, text: str, *, is_last: bool = False) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": not is_last})


async def _until_gone(receive: Receive) -> None:
    """Wait until the reader has closed its tab."""
    while (await receive())["type"] != "http.disconnect":
        pass
