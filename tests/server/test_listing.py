"""The list of studies in pages: the same studies as without, each once, whatever is created meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from askance_server.dashboard import studies as listed
from askance_server.dashboard.studies import page_of_list
from askance_server.ledger import NotFoundError
from tests.harness.servers import Json, Service, is_problem
from tests.protocol.studies import study
from tests.server.ledger.ledgers import Keeper, publish

pytest_plugins = ("tests.server.ledger.ledgers",)

PARAMETERS = {"users": "all", "tolerance": "0.3", "epsilon": "0.1"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path / "data", cap="9") as service:
        service.enrol(3)
        yield service


def walked(api: Service, limit: int, create: int = 0) -> list[Json]:
    """All pages, and after each of the first ones another study is created."""
    found, path = list[Json](), f"/v1/studies?limit={limit}"
    while path:
        answer = api.get(path)
        page = answer.json()
        assert len(page) <= limit
        found += page
        link = re.fullmatch(r'<(/v1/studies\?.*)>; rel="next"', answer.headers.get("link", ""))
        path = "" if link is None else link[1]
        if create:
            create -= 1
            api.study(parameters=PARAMETERS)
    return found


def test_pages_are_the_list_and_end_where_it_does(api: Service) -> None:
    made = [api.study(parameters=PARAMETERS)["id"] for _ in range(5)]
    whole = api.get("/v1/studies")

    # Without parameters as it always was: one array of all.
    assert [each["id"] for each in whole.json()] == made
    assert "link" not in whole.headers
    for limit in (1, 2, 4, 5, 6, 1000):
        assert walked(api, limit) == whole.json()
    assert [each["id"] for each in api.get(f"/v1/studies?after={made[2]}").json()] == made[3:]


def test_whatever_is_created_meanwhile_nothing_is_missed_and_nothing_comes_twice(api: Service) -> None:
    for _ in range(3):
        api.study(parameters=PARAMETERS)

    found, whole = walked(api, 1, create=2), api.get("/v1/studies").json()
    assert found == whole
    assert len(whole) == 5


def test_an_empty_list_and_a_page_behind_the_last_are_empty(api: Service) -> None:
    assert walked(api, 3) == []
    last = api.study(parameters=PARAMETERS)["id"]
    assert api.get(f"/v1/studies?limit=3&after={last}").json() == []


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("limit=0", "invalid-request"),
        ("limit=1001", "invalid-request"),
        ("limit=x", "invalid-request"),
        ("after=7", "invalid-request"),
        (f"after={'f' * 64}", "not-found"),
        (f"limit=1&after={'f' * 64}", "not-found"),
    ],
)
def test_what_is_no_page_is_refused(api: Service, query: str, problem: str) -> None:
    is_problem(api.get(f"/v1/studies?{query}"), problem)


def test_every_ledger_gives_the_studies_behind_one(keeper: Keeper) -> None:
    ledger = keeper.ledger
    assert ledger.studies_behind("", 5) == []
    specs = [study(nonce=f"{number:032x}") for number in range(4)]
    for spec in specs:
        publish(ledger, spec)
    ids = [spec.digest() for spec in specs]

    for opened in (ledger, keeper.reopen()):
        assert opened.studies_behind("", 2) == ids[:2]
        assert opened.studies_behind(ids[1], 1 << 53) == ids[2:]
        assert opened.studies_behind(ids[3], 2) == []
        with pytest.raises(NotFoundError):
            opened.studies_behind("f" * 64, 2)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
def test_pages_of_the_page_lead_to_each_other_and_stay(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "A_PAGE", 2)
    known = [f"{number}" for number in range(count)]

    pages, before = [page_of_list(known)], [""]
    while (older := pages[-1].older) is not None:
        before.append(older.removeprefix("/?before="))
        pages.append(page_of_list(known, before=before[-1]))
    assert [study for page in pages for study in page.studies] == known[::-1]
    assert [page.first for page in pages] == list(range(1, max(count, 1) + 1, 2))
    assert [page.newer for page in pages] == [None, "/", *(f"/?before={each}" for each in before[1:])][: len(pages)]
    # Whatever is created: the pages behind the first are the same studies. The number of a page leads elsewhere.
    for page, study_ in zip(pages[1:], before[1:], strict=True):
        assert page_of_list([*known, "new"], before=study_).studies == page.studies
    assert page_of_list(known, page=99).studies == (pages[-1].studies if count else [])
