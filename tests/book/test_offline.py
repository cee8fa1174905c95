"""A book loads nothing from elsewhere, and two builds of one commit are the same apart from times."""

from pathlib import Path

import nbformat
import pytest
from outside import from_elsewhere, leading_nowhere

from lib import paths

pytestmark = pytest.mark.slow

INDEX = r"""# A small book

Scores are $h W^\top + b$, and an interval has the width

$$
\hat p \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n}}
$$ (width)

so {eq}`width` shrinks with $n$; see [a source](https://example.org/paper).

```python
print("code")
```

{glue:text}`results/m/xstest/data.ipynb::read:` rows.
"""
RUN = "book/runs/smol-armo/xstest"


def test_loads_from_elsewhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<script src="https://x.org/a.js"></script><link rel="stylesheet" href="//x.org/b.css">'
        '<img src="c.png"><a href="https://x.org/d">cited</a><link rel="canonical" href="https://x">'
        "<style>@import 'https://x.org/e.css';</style><p style='background:url(http://x.org/f)'>"
    )
    (tmp_path / "g.css").write_text("a{background:url(https://x.org/g.png)} b{src:url(h.woff2)}")
    assert from_elsewhere(tmp_path) == [
        "a.html: https://x.org/a.js",
        "a.html: //x.org/b.css",
        "a.html: https://x.org/e.css",
        "a.html: http://x.org/f",
        "g.css: https://x.org/g.png",
    ]


def test_what_a_page_asks_elsewhere_or_misses_is_heard(visit, tmp_path):
    (tmp_path / "a.html").write_text(
        "<link rel=stylesheet href=http://a.org/a.css><script src=https://b.org/b.js></script>"
        "<img src=https://c.org/c.png><iframe src=https://d.org/d></iframe><img src=e.png>"
        "<style>@font-face { font-family: f; src: url(https://f.org/f.woff2) } p { font: 1em f }"
        "</style><p>text</p><script>fetch('https://g.org/g').catch(() => 0);"
        "navigator.sendBeacon('https://h.org/h')</script>"
    )
    tab, said = visit(tmp_path / "a.html")
    tab.wait_for_timeout(200)
    failed = {line.rpartition("/")[2] for line in said if line.startswith("failed ")}
    assert failed == {"a.css", "b.js", "c.png", "d", "e.png", "f.woff2", "g", "h"}


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text('<h2 id="there">t</h2><a href="../a.html#top">up</a>')
    (tmp_path / "a.html").write_text(
        '<a href="b/c.html#there">right</a><a href="https://x.org">out</a><a href="#">here</a>'
        '<a href="b/d.html">no page</a><a href="b/c.html#else">no place</a><img src="e.png">'
        '<a href="">nothing</a><a href="data:text/csv,a">data</a>'
    )
    lost = ["b/d.html", "b/c.html#else", "e.png", ""]
    assert leading_nowhere(tmp_path) == [
        *(f"a.html: {link}" for link in lost),
        "b/c.html: ../a.html#top",
    ]


NAMES = ("data", "validity")


@pytest.fixture(scope="module")
def make(small_book, execute, tmp_path_factory):
    """Executes the pages and builds the book of them."""

    def build():
        folder = tmp_path_factory.mktemp("pages")
        given = {"model": "smol-armo", "dataset": "xstest", "run": RUN}
        for name in NAMES:
            execute(name, folder / f"{name}.ipynb", given, "xstest")
        return small_book(INDEX, {f"m/xstest/{name}": folder / f"{name}.ipynb" for name in NAMES})

    return build


@pytest.fixture(scope="module")
def book(make):
    return make()


def test_a_book_with_formulas_and_charts_loads_nothing_from_elsewhere(book):
    assert from_elsewhere(book) == []
    assert "jsdelivr" not in (book / "book" / "index.html").read_text()


@pytest.mark.parametrize("page", ["book/index", "book/results/m/xstest/validity", "search"])
def test_a_browser_without_network_misses_nothing(book, visit, page):
    tab, said = visit(book / f"{page}.html")
    tab.wait_for_timeout(500)
    assert said == []


@pytest.mark.parametrize(("kind", "starts"), [("SVG", b"<svg"), ("PNG", b"\x89PNG")])
def test_a_drawing_can_be_saved(book, visit, kind, starts):
    tab, said = visit(book / "book" / "results" / "m" / "xstest" / "validity.html")
    tab.locator('[data-state="drawn"]').first.wait_for()
    with tab.expect_download() as saved:
        tab.locator(".chart-save", has_text=kind).first.click()
    assert saved.value.suggested_filename == f"m-xstest-validity-validity.{kind.lower()}"
    assert Path(saved.value.path()).read_bytes().startswith(starts) and not said


def test_formulas_are_drawn_by_the_browser(book, visit):
    tab, _ = visit(book / "book" / "index.html")
    formulas = tab.locator("math")
    assert formulas.count() == 3
    boxes = [formulas.nth(i).bounding_box() for i in range(3)]
    assert all(box["width"] > 5 and box["height"] > 4 for box in boxes)
    # A fraction under a root is higher than a line of text.
    assert boxes[1]["height"] > 1.5 * boxes[2]["height"]
    assert tab.locator("div.math .eqno").inner_text() == "(1)"
    assert tab.evaluate("typeof MathJax") == "undefined"


def test_formulas_fit_a_phone(book, visit):
    tab, _ = visit(book / "book" / "index.html", viewport={"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_download_button_gives_the_executed_notebook(book, visit):
    tab, _ = visit(book / "book" / "results" / "m" / "xstest" / "validity.html")
    link = tab.locator("a.btn-download-source-button").first
    given = Path(tab.evaluate("e => new URL(e.href).pathname", link.element_handle()))
    executed = nbformat.read(given, as_version=4)
    assert any(cell.get("outputs") for cell in executed.cells)
    assert not tab.locator(".btn-source-edit-button").count()


# ---- Built again ----


def test_two_builds_differ_in_times_only(book, make, kills):
    first, second = kills.content(book), kills.content(make())
    assert sorted(first) == sorted(second)
    assert paths.BOOK.name in {name.partition("/")[0] for name in first}
    assert not {name for name, _ in first.items() ^ second.items()}
    shown = (path.read_bytes() for path in book.rglob("*.html"))
    assert sum(len(kills.TIME.findall(page)) for page in shown) == len(NAMES)
