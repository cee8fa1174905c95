"""The form with which a claim is disputed, on the page itself: to read, to copy and to save.

It is the repository's own, ``.github/ISSUE_TEMPLATE/dispute.yml``. ``lib.book.repository`` leads
there once the repository is named.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import yaml

from lib import paths
from lib.errors import DataError
from lib.markup import Html, escape

FILE = paths.ROOT / ".github" / "ISSUE_TEMPLATE" / "dispute.yml"
NAME = "dispute.md"
NOWHERE = (
    "This copy of the book names no repository, so nothing can be sent from here. Fill in the form "
    "below and send it to whoever published this copy. Who publishes one names the repository in "
    "CITATION.cff, as repository-code: that line leads each claim to the form there."
)


def form() -> Html:
    """Where to send a dispute, and the form as text.

    Raises
    ------
    DataError
        When the form isn't there, or isn't one.
    """
    text = written(_read())
    link = f"data:text/markdown;charset=utf-8,{quote(text)}"
    return Html(
        f'<div class="dispute mathjax_ignore"><p class="dispute-where">{escape(NOWHERE)}</p>'
        f"<pre>{escape(text)}</pre>"
        f'<p class="table-data">The form as a file: <a class="data-link" download="{NAME}" '
        f'href="{link}">Markdown</a></p></div>'
    )


def written(form: dict[str, Any]) -> str:
    """A form of issues as Markdown to fill in: a heading a field, its choices as boxes."""
    lines = [f"# {form['name']}", "", form["title"]]
    for field in form["body"]:
        about = field["attributes"]
        needed = " (needed)" if field.get("validations", {}).get("required") else ""
        lines += ["", f"## {about['label']}{needed}", ""]
        lines += [about["description"], ""] if "description" in about else []
        options = [o["label"] if isinstance(o, dict) else o for o in about.get("options", [])]
        lines += [f"- [ ] {option}" for option in options] or ["…"]
    return "\n".join(lines) + "\n"


def _read() -> dict[str, Any]:
    try:
        found = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        written(found)
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        remedy = "Put the committed file back."
        raise DataError(f"a form of issues at {FILE}", f"{error}", remedy) from None
    return found
