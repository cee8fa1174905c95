"""A sidebar that is rendered once is, for each page, the one that the theme renders for it."""

from sphinx.application import Sphinx

from lib.book import sidebar

PAGES = {
    "index": ["first", "models/one/model", "closing & more"],
    "first": [],
    "models/one/model": ["/models/one/check", "/models/one/data/validity", "/models/twice"],
    "models/one/check": [],
    "models/one/data/validity": ["/models/one/data/labels"],
    "models/one/data/labels": ["/models/twice"],
    "models/twice": [],
    "closing & more": [],
    "alone": [],
}
ASKED = {"kind": "sidebar", "maxdepth": 4, "collapse": False, "includehidden": True}
ASKED |= {"startdepth": 0, "titles_only": True, "show_nav_level": 1}


def write(folder):
    for name, below in PAGES.items():
        page = folder / f"{name}.rst"
        page.parent.mkdir(parents=True, exist_ok=True)
        tree = "\n   ".join([".. toctree::", ":caption: Part", "", *below]) if below else ""
        page.write_text(f"Of {name}\n{'=' * 60}\n\n{tree}\n\nA part\n------\n\nText.\n")
    (folder / "conf.py").write_text("html_theme = 'sphinx_book_theme'\n")
    return Sphinx(folder, folder, folder / "out", folder / "trees", "html", status=None)


def test_each_page_has_the_sidebar_that_the_theme_renders_for_it(tmp_path):
    app = write(tmp_path)
    found, kept = {}, []

    def compare(app, page, template, context, doctree):
        theirs = context["generate_toctree_html"]
        ours = sidebar.once(app, page, context)
        for _ in range(2):
            found[page] = (ours(**ASKED), f"{theirs(**ASKED)}")
        kept.append(len(app.sidebars))

    app.connect("html-page-context", compare, priority=900)
    app.build()
    assert set(PAGES) | {"search"} <= set(found)
    for page, (ours, theirs) in found.items():
        assert ours == theirs, page
    opened = [name for name, (ours, _) in found.items() if 'class="current reference' in ours]
    assert set(opened) == set(PAGES) - {"index", "alone"}
    assert set(kept) == {1}


def test_the_theme_renders_it_for_pages_that_are_in_it_twice_alone(tmp_path, monkeypatch):
    app, asked = write(tmp_path), []
    rendered = app.builder._get_local_toctree

    def local(page, **options):
        asked.append(page)
        return rendered(page, **options)

    monkeypatch.setattr(app.builder, "_get_local_toctree", local)
    sidebar.start(app)
    app.build()
    assert sorted(asked) == ["models/twice", sidebar.OUTSIDE]
    for name in PAGES:
        assert "bd-sidenav" in (tmp_path / "out" / f"{name}.html").read_text()
