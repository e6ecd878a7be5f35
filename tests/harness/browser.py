"""A real browser for the tests: found or installed, one a worker, and pages that tell what must not happen.

Chromium is what is on the PATH; else Playwright's own, if it is there; else, for root on Debian, the package is
installed, once, while other workers wait. Where none of that works a test is skipped, unless `CI` is true: there it
fails.

The browser and Playwright's driver are processes that last as long as the worker, and so does the connection between
them; each test has contexts of its own. The
loop that speaks to it is asleep in this thread all the time, within a greenlet: between tests asyncio is told that none
runs here, or no other test could run one.

A page that a test opens keeps book of its console, of errors that nobody caught, and of requests that leave this
machine. At its end all three have to be empty, but for what the test said it expects.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request, sync_playwright

from tests.harness.marks import SECONDS
from tests.harness.memory import in_memory

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # The same pixels wherever it runs.
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    # Each new window prepares suggestions for an address that nobody types, in a process of its own: more than half of
    # what a context costs.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
)
HERE: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
LOCAL: Final = frozenset({"data", "blob", "about", "file"})
"""Schemes of addresses that name no host."""


def on_path() -> str | None:
    """A Chromium that the PATH has."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def installed() -> str | None:
    """The Chromium of Debian, installed by the first worker that needs it; None where that cannot be."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    with (Path(tempfile.gettempdir()) / "askance-tests-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := on_path()) is None:
            for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
                subprocess.run(command, check=False, capture_output=True, timeout=10 * SECONDS)
            found = on_path()
    return found


def downloaded() -> str | None:
    """Playwright's own Chromium, if it is there."""
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def chromium() -> str | None:
    """Where Chromium is."""
    return on_path() or downloaded() or installed()


@contextlib.contextmanager
def launched(path: str) -> Generator[str]:
    """A browser process; the address at which it is driven."""
    memory = in_memory()  # a wallet of a page is synced at each step
    with tempfile.TemporaryDirectory(prefix="askance-browser-", dir=memory, ignore_cleanup_errors=True) as profile:
        command = [path, *ARGUMENTS, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            [*command, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            # Where the tests themselves are killed, nobody else would end it.
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - it calls one function of the system, and no thread runs yet
        )
        try:
            yield f"http://127.0.0.1:{_port(Path(profile) / 'DevToolsActivePort', process)}"
        finally:
            # Its children too: they are in its session, which is nobody else's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(SECONDS)


def _die_with_parent() -> None:
    """Linux's PR_SET_PDEATHSIG."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _port(told: Path, process: subprocess.Popen[bytes]) -> int:
    """The port that the browser has chosen, and written down."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, IndexError, ValueError):
            return int(told.read_text("ascii").splitlines()[0])
        time.sleep(0.02)
    raise AssertionError(f"the browser did not start: exit code {process.poll()}")


def missing() -> None:
    """Skip for want of a browser; in continuous integration, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail("no Chromium: not on the PATH, not Playwright's own, and it could not be installed")
    pytest.skip("no Chromium here: install it, or run `playwright install chromium`")


@dataclass
class Watched:
    """What went wrong in the pages of one test. Without slots: Playwright notes its own things at who listens."""

    faults: list[str] = field(default_factory=list[str])
    expected: list[re.Pattern[str]] = field(default_factory=list[re.Pattern[str]])
    """What a test expects of the console: a server that it has killed refuses connections."""

    def expect(self, pattern: str) -> None:
        """Let faults pass that have this in them."""
        self.expected.append(re.compile(pattern))

    def watch(self, context: BrowserContext) -> BrowserContext:
        """Keep book of every page of a context."""
        context.on("console", self._console)
        context.on("weberror", lambda error: self.faults.append(f"error: {error.error}"))
        context.on("request", self._request)
        return context

    @property
    def left(self) -> list[str]:
        """Faults that nobody expected."""
        return [fault for fault in self.faults if not any(each.search(fault) for each in self.expected)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.faults.append(f"console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in LOCAL and (parts.hostname or "") not in HERE:
            self.faults.append(f"request to another host: {request.url}")


@dataclass(slots=True)
class Pages:
    """Opens pages in contexts of their own, as browsers of several people are, and closes them."""

    browser: Browser
    watched: Watched
    _contexts: list[BrowserContext] = field(default_factory=list[BrowserContext])

    def context(self, **options: Any) -> BrowserContext:
        """A new context. Options are Playwright's: `viewport`, `color_scheme`, `java_script_enabled`, …"""
        context = self.watched.watch(self.browser.new_context(reduced_motion="reduce", locale="en-GB", **options))
        context.set_default_timeout(SECONDS * 1000)
        self._contexts.append(context)
        return context

    def open(self, address: str, *, width: int = 1280, height: int = 800, dark: bool = False, **options: Any) -> Page:
        """A page in a new context, loaded."""
        scheme = "dark" if dark else "light"
        context = self.context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        page = context.new_page()
        page.goto(address)
        return page

    def close(self) -> None:
        """Close all contexts."""
        for context in self._contexts:
            context.close()


@pytest.fixture(scope="session")
def browser_address() -> Generator[str]:
    """One browser for all tests of a worker."""
    if (path := chromium()) is None:
        missing()
    else:
        with launched(path) as address:
            yield address


@pytest.fixture(scope="session")
def driver() -> Generator[tuple[Playwright, asyncio.AbstractEventLoop]]:
    """Playwright, and its loop, for all tests of a worker: to start it takes most of a second."""
    with sync_playwright() as playwright:
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        try:
            yield playwright, loop
        finally:
            asyncio._set_running_loop(loop)


@contextlib.contextmanager
def awake(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """While a test has pages, this is the loop of the thread."""
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def browser(browser_address: str, driver: tuple[Playwright, asyncio.AbstractEventLoop]) -> Generator[Browser]:
    """The connection to the browser, for all tests of a worker."""
    playwright, loop = driver
    with awake(loop):
        connected = playwright.chromium.connect_over_cdp(browser_address)
    yield connected
    with awake(loop):
        connected.close()


@pytest.fixture
def pages(browser: Browser, driver: tuple[Playwright, asyncio.AbstractEventLoop]) -> Generator[Pages]:
    """Pages for one test, which fails if anything went wrong in one of them."""
    with awake(driver[1]):
        made = Pages(browser, Watched())
        try:
            yield made
        finally:
            made.close()
    assert made.watched.left == []
