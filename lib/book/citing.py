"""What ``CITATION.cff`` says, and the book as a BibTeX entry; a site's rendering imports it."""

from __future__ import annotations

from typing import Any

import yaml

from lib import paths
from lib.documents import read_bytes
from lib.errors import PageError

CITATION = "CITATION.cff"


def citation() -> dict[str, Any]:
    """What ``CITATION.cff`` says."""
    path = paths.ROOT / CITATION
    try:
        return yaml.safe_load(read_bytes(path, what="a citation", error=PageError))
    except (ValueError, yaml.YAMLError) as error:
        raise PageError(f"YAML at {path}", f"{error}", "Put the committed file back.") from None


def bibtex(about: dict[str, Any]) -> str:
    """The book as a BibTeX entry, from what ``citation`` read; what isn't given is left out."""
    fields = {
        "title": "{" + about["title"] + "}",
        "author": " and ".join(_author(each) for each in about["authors"]),
        "year": str(about.get("date-released", ""))[:4],
        "version": str(about["version"]),
        "license": str(about.get("license", "")),
        "url": about.get("repository-code") or about.get("url", ""),
    }
    lines = [f"  {name:<8}= {{{value}}}," for name, value in fields.items() if value]
    key = "reward-audit-" + str(about["version"])
    return "\n".join([f"@software{{{key},", *lines, "}"])


def _author(author: dict[str, str]) -> str:
    if "name" in author:
        return "{" + author["name"] + "}"
    return f"{author['family-names']}, {author.get('given-names', '')}".rstrip(", ")
