"""Pages opened in a real browser, and all that they say and ask for."""

from pathlib import Path

from conftest import SAFETY_NET_S
from playwright.sync_api import Browser, Page, Request


class Watched:
    """A page, what its console said, and what it asked the network for."""

    def __init__(self, page: Page) -> None:
        page.set_default_timeout(SAFETY_NET_S * 1000)
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, request: Request) -> None:
        self.asked.append(request.url)

    def is_clean(self, *urls: str) -> bool:
        """Whether it said nothing and asked for nothing but these."""
        return not self.said and self.asked == list(urls)


def opened(browser: Browser, file: Path, part: str = "", **options: object) -> Watched:
    watched = Watched(browser.new_page(**options))  # type: ignore[arg-type]
    watched.page.goto(file.as_uri() + part)
    return watched
