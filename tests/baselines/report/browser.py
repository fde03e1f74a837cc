"""A headless Chromium for tests, driven by Playwright; the browser is the system's own."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

TIMEOUT_MS = 60_000  # machines are shared
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ROOT = Path(__file__).parents[3]
NPM = ROOT / ".ci" / "npm"
AXE = NPM / "node_modules" / "axe-core" / "axe.min.js"


expect.set_options(timeout=TIMEOUT_MS)


@contextmanager
def chromium():
    """Start the browser; fail with what to install where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found is not None, f"found none of {', '.join(NAMES)}; .ci/browser installs one"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page with everything that its console said."""

    def __init__(self, browser: Browser, *, width: int = 1440, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def go(self, address: str) -> Page:
        """Open an address and wait until the report is drawn."""
        self.page.goto(address)
        self.page.wait_for_selector("h1")
        return self.page

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process of the page has used."""
        session = self.context.new_cdp_session(self.page)
        session.send("Performance.enable")
        told = session.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in told if one["name"] == "ProcessTime"))

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()
