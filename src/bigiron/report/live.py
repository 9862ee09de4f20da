"""The report of a study while it runs: served to this machine alone, at an address that nobody can guess.

The page asks for news, and gets an answer when there are any; when a cell has landed it gets the report anew,
and shows what is different. Reports are made by a process of its own with the lowest priority: what is being
measured comes first.
"""

import json
import multiprocessing
import os
import secrets
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from bigiron.errors import UserError
from bigiron.report.formats import html
from bigiron.report.study import document
from bigiron.study import store
from bigiron.study.plan import Cell
from bigiron.study.run import Progress
from bigiron.study.store import CellRecord, Study

_PATIENCE_S = 20.0  # how long a page waits for news before it asks again
_OPENING = ""  # the name of a page that has not asked for news yet
_FAREWELL_S = 5.0  # how long the end waits for open pages to get the last report


class LiveReport:
    """Hears how a study gets on, tells the pages that watch it, and passes it on."""

    def __init__(self, study: Study, progress: Progress) -> None:
        self._study = study
        self._progress = progress
        self._server = _Server(("127.0.0.1", 0), self)
        self._token = secrets.token_urlsafe(24)
        self._changed = threading.Condition()
        self._changes = 0  # of anything that is told
        self._landed = 0  # cells
        self._ended = False
        self._stages: dict[str, str] = {}
        self._pages: dict[str, float] = {}  # by their names: when each asked last
        self._told: set[str] = set()  # those that know that the run has ended
        self._written = (-1, "")  # the last report, and of how many landed cells
        self._writing = threading.Lock()
        self._writer = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_step_back)

    @property
    def address(self) -> str:
        """To be opened in a browser."""
        return f"http://127.0.0.1:{self._server.server_port}/{self._token}/"

    def __enter__(self) -> "LiveReport":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(ended=True)
        if error is None:
            self._say_farewell()
        self._server.shutdown()
        self._server.server_close()
        self._writer.shutdown(wait=False, cancel_futures=True)

    def _say_farewell(self) -> None:
        if not self._watching():
            return
        self.report(_OPENING)  # so that only its way to the pages is waited for
        end = time.monotonic() + _FAREWELL_S
        while self._watching() and time.monotonic() < end:
            time.sleep(0.05)

    def _watching(self) -> bool:
        """Whether a page has asked lately that has not got the last report."""
        return any(time.monotonic() - asked < 2 * _PATIENCE_S for asked in list(self._pages.values()))

    # What the study tells

    def started(self, cell: Cell) -> None:
        """A machine starts for the cell."""
        self._progress.started(cell)
        self._tell(str(cell), "booting")

    def stage(self, cell: Cell, stage: str) -> None:
        """The cell has come to a stage."""
        self._progress.stage(cell, stage)
        self._tell(str(cell), stage)

    def ended(self, cell: Cell, record: CellRecord) -> None:
        """The cell is measured, or has failed."""
        self._progress.ended(cell, record)
        self._tell(str(cell), landed=1)

    def added(self, cells: list[Cell], why: str) -> None:
        """More cells are to be measured than there were."""
        self._progress.added(cells, why)
        self._tell(landed=1)  # the report says how many there are

    def note(self, line: str) -> None:
        """Something that concerns no cell alone: the page does not show it."""
        self._progress.note(line)

    def _tell(self, cell: str = "", stage: str = "", *, landed: int = 0, ended: bool = False) -> None:
        with self._changed:
            self._stages.pop(cell, None)
            if stage:
                self._stages[cell] = stage
            self._landed += landed
            self._ended = self._ended or ended
            self._changes += 1
            self._changed.notify_all()

    # What pages ask

    def is_ours(self, token: str, host: str) -> bool:
        """Whether it is asked by the address printed: by another name it may be a page of somebody else's."""
        port = self._server.server_port
        return secrets.compare_digest(token.encode(), self._token.encode()) and host in (
            f"127.0.0.1:{port}",
            f"localhost:{port}",
        )

    def opened(self) -> None:
        """A page is being opened: it is to hear of the end, even if that comes first."""
        self._pages[_OPENING] = time.monotonic()

    def news(self, after: int, page: str) -> str:
        """What is going on, once there is something new; or after a while."""
        with self._changed:
            self._pages.pop(_OPENING, None)
            self._pages[page] = time.monotonic()
            self._changed.wait_for(lambda: self._changes != after or self._ended, _PATIENCE_S)
            running = "; ".join(f"{cell}: {stage}" for cell, stage in self._stages.items())
            if self._ended:
                self._told.add(page)
            said = {"changes": self._changes, "landed": self._landed, "said": running, "ended": self._ended}
        return json.dumps(said)

    def gone(self, page: str) -> None:
        """A page was closed before it got its answer: the end does not wait for it."""
        with self._changed:
            self._pages.pop(page, None)

    def report(self, page: str) -> str:
        """The report of what has landed, made once for all pages."""
        with self._writing:
            landed = self._landed
            if self._written[0] != landed:
                self._written = (landed, self._writer.submit(_write, self._study.folder).result())
            if page in self._told:
                self._pages.pop(page, None)  # it has the last one
            return self._written[1]


def _step_back() -> None:
    """What is measured has precedence; and Ctrl-C is for the process that runs the study."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(19)


def _write(folder: Path) -> str:
    return html.render(document.document_of(store.open_study(folder), None, ("process",)), live=True)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], live: LiveReport) -> None:
        self.live = live
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    _page = ""  # that asks

    def handle(self) -> None:
        """Answer, unless the page has been closed meanwhile: that is nobody's failure."""
        try:
            super().handle()
        except ConnectionError:
            if self._page:
                self.server.live.gone(self._page)

    def finish(self) -> None:
        """What is left to send, likewise."""
        with suppress(ConnectionError):
            super().finish()

    def do_GET(self) -> None:
        live, url = self.server.live, urlsplit(self.path)
        _, token, name, *more = [*url.path.split("/"), "", ""]
        asked = {key: values[-1] for key, values in parse_qs(url.query).items()}
        page, after = asked.get("page", ""), asked.get("after", "")
        if any(more) or not live.is_ours(token, self.headers.get("Host", "")):
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "not found\n")
        elif name in ("", "report"):
            if not name:
                live.opened()
            self._report(live, page)
        elif name == "news" and after.isdecimal():
            self._page = page
            self._answer(HTTPStatus.OK, "application/json", live.news(int(after), page))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "not found\n")

    def _report(self, live: LiveReport, page: str) -> None:
        try:
            self._answer(HTTPStatus.OK, "text/html", live.report(page))
        except UserError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", f"{error}\n")

    def _answer(self, status: HTTPStatus, kind: str, content: str) -> None:
        encoded = content.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(encoded))),
            ("Content-Security-Policy", "frame-ancestors 'none'"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard error is for how the study gets on."""
