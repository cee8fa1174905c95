"""One address, ``repository-code`` of ``CITATION.cff``, fills every link to the book's repository.

Where it is named, each page has buttons to edit it, to open an issue and to see the repository,
and what says how to dispute a claim leads to the form there, with the claim's key filled in. Where
it isn't, the page of published claims says what to do, and nothing leads nowhere.
"""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import urlencode

from lib import paths
from lib.book import citing
from lib.errors import PageError

FORM = "dispute.yml"
ELSEWHERE = re.compile(r'<p class="dispute-where">.*?</p>', re.DOTALL)
OF_A_CLAIM = re.compile(r'<a href="[^"]*" data-dispute="([^"]*)">')


def address() -> str:
    """The repository's address, without a slash at its end; empty where none is named.

    A book that has no ``CITATION.cff`` names none.

    Raises
    ------
    PageError
        When it is named and isn't an https address.
    """
    if not (paths.ROOT / citing.CITATION).exists():
        return ""
    named = str(citing.citation().get("repository-code") or "").rstrip("/")
    if named and not re.fullmatch(r"https://[^\s\"'<>]+", named):
        needed = f"repository-code in {citing.CITATION} as an https address"
        raise PageError(needed, repr(named), "Mend it, or leave it out.")
    return named


def form(repository: str, key: str = "") -> str:
    """Where a claim is disputed: the issue form, with the key of the claim if there is one."""
    named = {"title": f"Dispute: {key}", "key": key} if key else {}
    return f"{repository}/issues/new?{urlencode({'template': FORM} | named)}"


def filled(body: str, repository: str) -> str:
    """Markup whose places for a dispute lead to the form; as it was where no address is named."""
    if not repository:
        return body

    def of_a_claim(link: re.Match) -> str:
        to = html.escape(form(repository, html.unescape(link[1])))
        return f'<a href="{to}" data-dispute="{link[1]}">'

    to = html.escape(form(repository))
    there = f'<p class="dispute-where"><a href="{to}">Open the form</a> in the repository.</p>'
    return ELSEWHERE.sub(lambda _: there, OF_A_CLAIM.sub(of_a_claim, body))


def _name(app: Any, config: Any) -> None:
    """Name the repository to the theme, unless ``_config.yml`` names one by itself."""
    options = config.html_theme_options
    if (repository := address()) and not options.get("repository_url"):
        options["repository_url"] = repository
        options.setdefault("repository_branch", "main")
        for button in ("edit_page", "repository", "issues"):
            options[f"use_{button}_button"] = True


def _fill(app: Any, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    if not hasattr(app, "repository_address"):
        app.repository_address = address()  # read once for all pages
    if "body" in context:
        context["body"] = filled(context["body"], app.repository_address)


def setup(app: Any) -> dict[str, Any]:
    """Name the repository before the theme reads it, and fill pages when they are written."""
    app.connect("config-inited", _name)
    app.connect("html-page-context", _fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
