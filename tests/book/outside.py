"""What the files of a site would load from other sites, and links in them that lead nowhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

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


class Links(HTMLParser):
    """Gathers a page's links and the places in it that a link may name."""

    def __init__(self):
        super().__init__()
        self.found: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        self.found += [given[name] for name in ("href", "src") if name in given]


def leading_nowhere(folder: Path) -> list[str]:
    """Links within a site, as its files have them before any script runs, without a target."""
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        if "_static" not in path.relative_to(folder).parts:  # templates of the theme
            pages[path] = Links()
            pages[path].feed(path.read_text())
    found = []
    for path, page in pages.items():
        for link in page.found:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            part = unquote(parts.fragment)
            known = not part or target not in pages or part in pages[target].places
            if not (link and target.is_file() and known):
                found.append(f"{path.relative_to(folder)}: {link}")
    return found
