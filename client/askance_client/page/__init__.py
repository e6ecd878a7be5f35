"""Take part: the page that a person answers on, as a document that is served or written to one file.

The page is plain HTML, one stylesheet and ES modules, its own beside this file and those of the protocol. They are
joined into one script (`askance_protocol.javascript`), so that a phone fetches it in one piece, a policy can name it by
its SHA-256, and what a server serves can be compared, byte for byte, with a file that came from elsewhere.

Nothing here imports a server, and no server imports this: whoever starts one hands it the page (`Page`).
"""

from __future__ import annotations

from askance_client.page.page import Page, read_page

__all__ = ["Page", "read_page"]
