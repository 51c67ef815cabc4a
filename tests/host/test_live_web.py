"""The page of live facts: who may read it, what it sends, how it ends, what Chromium shows."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from mcutrain_host.errors import HostError
from mcutrain_host.live import web
from mcutrain_host.live.facts import LiveFacts, LiveRun, Record
from mcutrain_host.live.rows import class_text, curve_texts, rows
from mcutrain_host.live.web import WebPage, page, snapshot

from tests.host.test_live_facts import connected, step

pytest.importorskip("uvicorn", reason="the extra `web` is not installed")

HOSTILE = "</script><img src=x onerror=alert(1)>{{7*7}}"
SECONDS = 20


def facts(steps: int = 300, source: str = "/dev/ttyACM0", **known: Any) -> LiveFacts:
    run = LiveRun(source)
    run.take([connected(class_names=("shirt", "bag", HOSTILE), sram_bytes=46072, **known)])
    run.take(step(i, 65536 + 9000 * (i % 7), i % 3, i % 2) for i in range(1, steps + 1))
    counted = {"stack_used_bytes": 512, "stack_bytes": 2048, "save_number": 7, "slots_erased": 3}
    run.take([Record("statistics", 0.0, steps, counted)])
    return run.facts


@pytest.fixture
def served() -> Iterator[WebPage]:
    with WebPage() as found:
        yield found


class Reader:
    """A reader of server-sent events, by the standard's rules for what we send."""

    def __init__(self, port: int) -> None:
        self.line = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        self.line.request("GET", "/facts", headers={"Accept": "text/event-stream"})
        self.answer = self.line.getresponse()
        assert self.answer.status == 200
        assert self.answer.headers.get_content_type() == "text/event-stream"

    def next(self) -> tuple[str, Any]:
        kind, data = "message", ""
        while line := self.answer.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            kind, data = (value, data) if name == "event" else (kind, data + value)
        return kind, json.loads(data)

    def close(self) -> None:
        self.answer.close()
        self.line.close()


def asked(port: int, path: str = "/", method: str = "GET", **headers: str) -> tuple[Any, bytes]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    line.request(method, path, headers=headers)
    answer = line.getresponse()
    body = answer.read()
    line.close()
    return answer, body


def test_events_carry_the_newest_facts_and_an_end(served: WebPage) -> None:
    first, second = facts(3), facts(5)
    reader = Reader(served.port)
    assert reader.next() == ("facts", {"boards": []})
    served.show((first,))
    assert reader.next() == ("facts", json.loads(snapshot((first,))))
    late = Reader(served.port)
    assert late.next() == ("facts", json.loads(snapshot((first,))))
    late.close()
    served.show((first, second))
    assert reader.next()[1]["boards"][1]["rows"] == [[r.name, r.text] for r in rows(second)]
    served.__exit__()
    assert reader.next() == ("end", {})
    reader.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", served.port), SECONDS)


def test_what_was_shown_last_arrives_before_the_end() -> None:
    with WebPage() as served:
        reader = Reader(served.port)
        reader.next()
        served.show((facts(9),))
    assert reader.next() == ("facts", json.loads(snapshot((facts(9),))))
    assert reader.next() == ("end", {})
    reader.close()


def test_a_closed_tab_is_forgotten_and_others_go_on(served: WebPage) -> None:
    closed, stays = Reader(served.port), Reader(served.port)
    assert served._stream.readers == 2
    closed.close()
    until = time.monotonic() + SECONDS
    while served._stream.readers > 1:
        assert time.monotonic() < until
        time.sleep(0.01)
    stays.next()
    served.show((facts(1),))
    assert len(stays.next()[1]["boards"]) == 1
    stays.close()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{}", ""]
)
def test_a_name_that_is_not_this_computers_is_refused(served: WebPage, host: str) -> None:
    for path in ("/", "/facts"):
        answer, body = asked(served.port, path, Host=host.format(served.port))
        assert answer.status == 421
        assert b"boards" not in body


def test_this_computers_names_are_served_the_page_alone(served: WebPage) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST"):
        answer, body = asked(served.port, Host=f"{name}:{served.port}")
        assert (answer.status, body) == (200, page())
    assert asked(served.port, "/../etc/passwd")[0].status == 404
    assert asked(served.port, "/", "POST")[0].status == 405
    assert asked(served.port, "/", "HEAD")[1] == b""


def test_the_page_allows_itself_its_own_script_and_nothing_else(served: WebPage) -> None:
    answer, body = asked(served.port)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Server" not in answer.headers
    text = body.decode().replace("http://www.w3.org/2000/svg", "")
    assert "://" not in text
    assert "src=" not in text


def test_only_this_computer_can_reach_it(served: WebPage) -> None:
    assert served._socket.getsockname()[0] == "127.0.0.1"
    assert served.url == f"http://127.0.0.1:{served.port}/"


def test_a_port_that_is_taken_is_a_sentence(served: WebPage) -> None:
    with pytest.raises(HostError, match=f"port {served.port} .* leave out --web-port"):
        WebPage(served.port)


def test_too_many_readers_are_told_so(served: WebPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MOST_STREAMS", 1)
    reader = Reader(served.port)
    assert asked(served.port, "/facts")[0].status == 503
    reader.close()


def test_without_the_server_library_a_sentence_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcutrain_host.packages._is_there", lambda module: False)
    with pytest.raises(HostError, match=r"needs the package uvicorn.*mcutrain\[web\]"):
        WebPage()


# ---- in Chromium ----


class Opened:
    """A page, and all that went wrong in it."""

    def __init__(self, chromium: Any, url: str, width: int, scheme: str) -> None:
        size = {"width": width, "height": 900}
        self.context = chromium.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on(
            "request", lambda r: r.url.startswith((url, "data:")) or self.wrong.append(r.url)
        )
        self.page.goto(url)

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_text_contents()
        return found


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_the_facts_as_they_come(
    chromium: Any, served: WebPage, width: int, scheme: str
) -> None:
    first, second = facts(300), facts(7, source=HOSTILE, board="<b>other</b>", total=None)
    served.show((first, second))
    opened = Opened(chromium, served.url, width, scheme)
    opened.page.wait_for_selector("section:nth-of-type(2)", timeout=1000 * SECONDS)
    for number, shown in ((1, first), (2, second)):
        within = f"section:nth-of-type({number})"
        pairs = list(zip(opened.texts(f"{within} dt"), opened.texts(f"{within} dd"), strict=True))
        assert pairs == [(row.name, row.text) for row in rows(shown)]
        counts = opened.texts(f"{within} .class span")
        named = [text for c in shown.classes for text in (c.name, class_text(c.steps, c.right))]
        assert counts == named
        drawn = opened.page.locator(f"{within} polyline").get_attribute("points")
        assert len(drawn.split()) == len(shown.curve)
        assert opened.texts(f"{within} .axis span") == list(curve_texts(shown.curve))
    assert opened.texts("h2") == ["b", "<b>other</b>"]
    assert opened.texts("#line") == ["live"]
    filled = opened.page.evaluate(
        "(() => { const bar = document.querySelector('.bar'); return bar.firstChild.offsetWidth"
        " / bar.offsetWidth; })()"
    )
    assert filled == pytest.approx(0.3, abs=0.01)  # 300 of 1,000 steps, in whole pixels
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    dark = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(18, 22, 27)") == (scheme == "dark")
    served.show((facts(301),))
    opened.page.locator("section").nth(1).wait_for(state="detached")
    assert "301 of 1,000, 30.1 %" in opened.texts("dd")
    served.__exit__()
    opened.page.get_by_text("mcutrain has ended").wait_for()
    assert "301 of 1,000, 30.1 %" in opened.texts("dd")
    assert opened.wrong == []
    opened.context.close()


@pytest.mark.slow
def test_the_page_finds_a_server_that_comes_back(chromium: Any) -> None:
    with WebPage() as first:
        port, url = first.port, first.url
        opened = Opened(chromium, url, 800, "light")
        opened.page.get_by_text("live", exact=True).wait_for()
        first._server.force_exit = first._server.should_exit = True  # as if it was killed
        first._thread.join(SECONDS)
        first._socket.close()
        opened.page.get_by_text("trying again").wait_for()
    with WebPage(port) as again:
        again.show((facts(4),))
        opened.page.wait_for_selector("section", timeout=1000 * SECONDS)
        assert "4 of 1,000, 0.4 %" in opened.texts("dd")
        opened.context.close()


def test_readers_in_other_threads_all_see_the_last_facts() -> None:
    ends: list[list[str]] = []

    def read(port: int) -> None:
        reader, kinds = Reader(port), []
        while (found := reader.next())[0] != "end":
            kinds.append(found[1]["boards"][0]["rows"][0][1] if found[1]["boards"] else "")
        ends.append(kinds)
        reader.close()

    with WebPage() as served:
        threads = [threading.Thread(target=read, args=(served.port,)) for _ in range(5)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + SECONDS
        while served._stream.readers < 5:
            assert time.monotonic() < until
            time.sleep(0.01)
        for number in range(50):
            served.show((facts(2, board=str(number)),))
    for thread in threads:
        thread.join(SECONDS)
    assert [kinds[-1] for kinds in ends] == ["49 at /dev/ttyACM0"] * 5
