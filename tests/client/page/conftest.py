"""The page, made once."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from askance_client.page import Page, read_page
from tests.client.page.hosted import PageHost, page_host
from tests.harness.browser import Pages


@pytest.fixture(scope="session")
def page() -> Page:
    """The page of this installation."""
    return read_page()


@pytest.fixture
def host(page: Page) -> Generator[PageHost]:
    """The page at a double of a server."""
    with page_host(page) as served:
        yield served


@pytest.fixture
def pages(host: PageHost, pages: Pages) -> Pages:
    """Pages that are closed before their server is."""
    return pages
