"""A person at the page, in a real browser: what she sees, what she presses, and what her browser has stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Page as Tab

_STORED: Final = """async (server) => {
  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const db = await done(indexedDB.open(`askance ${server}`));
  const found = {};
  for (const name of db.objectStoreNames) {
    const store = db.transaction(name).objectStore(name);
    found[name] = await done(store.getAll());
  }
  db.close();
  const text = (body) => new TextDecoder().decode(body);
  return { ...found, reports: found.reports.map((each) => ({ ...each, body: text(each.body) })) };
}"""
"""All that the wallet of a browser holds."""

REFUSED: Final = "Refused: "


@dataclass
class Person:
    """She has one tab open."""

    tab: Tab

    def sees(self, text: str | re.Pattern[str]) -> None:
        """Wait until this stands on the page."""
        self.tab.get_by_text(text).first.wait_for()

    def chooses(self, label: str) -> None:
        """Choose one of the answers."""
        self.tab.get_by_label(label, exact=not label.startswith("I cannot")).check()

    def sends(self) -> None:
        """Let the coin be flipped."""
        self.tab.locator("#send").click()

    def answers(self, label: str) -> None:
        """Choose, and send."""
        self.tab.locator("#send").wait_for()
        self.chooses(label)
        self.sends()

    def settled(self) -> str:
        """Wait for a screen that stays; its heading."""
        self.tab.locator("h1", has_not_text=re.compile("One moment|in the air")).wait_for()
        return self.heading

    @property
    def heading(self) -> str:
        """What the screen is."""
        return self.tab.locator("h1").inner_text()

    @property
    def text(self) -> str:
        """All that the screen says."""
        return self.tab.locator("body").inner_text()

    def wallet(self) -> dict[str, Any]:
        """What her browser has stored."""
        return self.tab.evaluate(_STORED, re.match(r"https?://[^/]+", self.tab.url)[0])  # type: ignore[index]


def answer_at_once(one: Person, other: Person) -> None:
    """Two tabs have the question open, choose unlike answers, and both send, a moment later and together."""
    for person, answer in ((one, "Yes"), (other, "No")):
        person.tab.locator("#send").wait_for()
        person.chooses(answer)
    for person in (one, other):
        person.tab.evaluate("() => void setTimeout(() => document.getElementById('send').click(), 300)")
