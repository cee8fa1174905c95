"""What the files of a site would load from other sites."""

import re
from html.parser import HTMLParser
from pathlib import Path

# Elements that load what their attribute names; a link that is followed by hand is none.
LOADING = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
    "use": ("href",),
    "image": ("href",),
}
RELATIONS = {"stylesheet", "preload", "modulepreload", "prefetch", "icon", "manifest", "preconnect"}
ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"""(?:url\(\s*|@import\s+)['"]?\s*((?:https?:)?//[^'")\s;]+)""", re.I)


class Loads(HTMLParser):
    """Gathers what a page would load."""

    def __init__(self):
        super().__init__()
        self.found: list[str] = []
        self._style = False

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.found += [given[name] for name in LOADING.get(tag, ()) if name in given]
        if tag == "link" and RELATIONS & set(given.get("rel", "").lower().split()):
            self.found.append(given.get("href", ""))
        self.found += IN_STYLE.findall(given.get("style", ""))
        self._style = tag == "style"

    def handle_data(self, data):
        if self._style:
            self.found += IN_STYLE.findall(data)

    def handle_endtag(self, tag):
        self._style = False


def from_elsewhere(folder: Path) -> list[str]:
    """What the files under the folder load from other sites."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".html":
            loads = Loads()
            loads.feed(path.read_text())
            found += [f"{path.name}: {load}" for load in loads.found if ELSEWHERE.match(load)]
        elif path.suffix == ".css":
            found += [f"{path.name}: {load}" for load in IN_STYLE.findall(path.read_text())]
    return found
