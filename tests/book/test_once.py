"""What Sphinx finds once for all pages is what it would find for each."""

from docutils import nodes
from sphinx.highlighting import PygmentsBridge
from sphinx.search.en import SearchEnglish

from lib.book import once

WORDS = (
    "Relational",
    "relational",
    "rewards",
    "rewarded",
    "ponies",
    "Ties",
    "y",
    "agreed",
    "naïve",
)


def test_stems_are_those_of_sphinx():
    ours, theirs = once.English({}), SearchEnglish({})
    for _ in range(2):
        assert [ours.stem(word) for word in WORDS] == [theirs.stem(word) for word in WORDS]
    assert (ours.js_stemmer_code, ours.stopwords) == (theirs.js_stemmer_code, theirs.stopwords)


def test_blocks_are_highlighted_as_by_sphinx_each_once():
    bridge, asked = PygmentsBridge("html"), []

    def highlight(*block, **options):
        asked.append(block)
        return bridge.highlight_block(*block, **options)

    ours = once.once(highlight)
    blocks = [("x = 1", "python", {}), ("x = 1", "none", {}), ("x = 1", "python", {"a": 1})]
    blocks += [("a\nb", "python", {"linenos": True}), ("a\nb", "python", {"linenos": False})]
    for _ in range(2):
        for source, lang, given in blocks:
            opts = {"stripnl": False} if "a" in given else None
            options = {name: value for name, value in given.items() if name != "a"}
            made = ours(source, lang, opts=opts, location="here", **options)
            assert made == bridge.highlight_block(source, lang, opts=opts, **options)
    assert len(asked) == len(blocks)


def test_titles_of_text_are_rendered_each_once_and_others_each_time():
    asked, parts = [], {}  # Sphinx gives the same dictionary each time

    def render(node):
        asked.append(node)
        parts["title"] = node.astext() if node else ""
        return parts

    ours = once.title_once(render)
    first, second = (nodes.title("", "", nodes.Text(text)) for text in ("One", "Two"))
    formula = nodes.title("", "", nodes.Text("Of "), nodes.math("", "x"))
    for node in (first, second, formula, None, first, second, formula, None):
        assert ours(node)["title"] == (node.astext() if node else "")
    assert asked == [first, second, formula, None, formula, None]
