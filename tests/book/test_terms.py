"""The first use of each term on a page leads to the glossary, and no text becomes markup."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sphinx.application import Sphinx

from lib.book import terms
from lib.book.terms import Entry, Terms
from lib.markup import takeaways

ITEM, WORLD, CRITERION = (Entry("glossary", f"term-{name}", f"<{name}> & more") for name in "abc")
KNOWN = {"item": ITEM, "planted world": WORLD, "world": WORLD, "criterion": CRITERION}
PAGE = """# Items and worlds

`item` and [an item](other.md) lead nowhere; items do, and a second item doesn't.
Of 3 planted worlds one world is {{term}}`item`, by criteria; item-level, hh-rlhf/item.

```{{raw}} html
{box}
```
"""
GLOSSARY = """# Glossary

```{glossary}
item
  One prompt.

planted world
world
  Made & so.

better
  An {term}`item`.
```
"""


def links(text: str) -> list[str]:
    return [piece for piece, entry in Terms(KNOWN).split(text) if entry]


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("An item, items and Items.", ["item"]),
        ("Items first", ["Items"]),
        ("Worlds: a planted world", ["Worlds"]),
        ("In planted worlds a world", ["planted worlds"]),
        ("by criteria of one criterion", ["criteria"]),
        ("item-level, hh-rlhf/item, file:item, itemise, an-item, item/b", []),
        ("(item)", ["item"]),
        ("&item;", []),
    ],
)
def test_a_term_is_linked_once_as_a_whole_word_in_either_number(text, linked):
    assert links(text) == linked
    assert "".join(piece for piece, _ in Terms(KNOWN).split(text)) == text


def test_what_was_linked_before_on_the_page_is_not_again():
    found = Terms(KNOWN)
    assert [entry for _, entry in found.split("a world") if entry] == [WORLD]
    assert [entry for _, entry in found.split("a planted world, an item") if entry] == [ITEM]


@given(
    st.lists(st.text() | st.sampled_from(["<item>", "&item; item", "</li><b>world"]), max_size=8)
)
def test_a_box_says_what_it_said_whatever_its_text(sentences):
    plain = takeaways(sentences).markup
    linked = terms.boxed(plain, Terms(KNOWN), lambda entry: f"g.html#{entry.place}")
    made = re.compile(
        r'<a class="reference internal" href="g\.html#term-[abc]" title="&lt;[abc]&gt; &amp; more">'
        r'<span class="xref std std-term">([^<]*)</span></a>'
    )
    assert made.sub(r"\1", linked) == plain
    assert len(made.findall(linked)) == linked.count("<a ") <= 3


def built(folder, page: str) -> str:
    (folder / "conf.py").write_text("extensions = ['myst_parser', 'lib.book.terms']\n")
    (folder / "glossary.md").write_text(GLOSSARY)
    (folder / "other.md").write_text("# Other\n\nNo items but better ones.\n")
    (folder / "index.md").write_text(page + "\n```{toctree}\nglossary\nother\n```\n")
    app = Sphinx(folder, folder, folder / "out", folder / "doc", "html", status=None)
    app.build()
    assert not app.statuscode
    return folder / "out"


def test_a_page_links_prose_and_takeaways_and_nothing_else(tmp_path):
    hostile = "<i>world</i> and a world"
    out = built(tmp_path, PAGE.format(box=takeaways([hostile, "another world"]).markup))
    page = (out / "index.html").read_text()
    body = page.partition("<section")[2].partition('<div class="toctree')[0]
    found = re.findall(r'<a class="reference internal" href="glossary.html#([^"]+)"[^>]*>', body)
    assert found == ["term-item", "term-planted-world", "term-item"]  # the last as the page asks
    assert 'title="Made &amp; so."' in body and body.count('title="One prompt."') == 2
    assert takeaways([hostile, "another world"]).markup in body  # seen before in prose
    other = (out / "other.html").read_text()
    assert other.count("glossary.html#term-item") == 1 and "term-better" not in other
    glossary = html.unescape((out / "glossary.html").read_text())
    assert glossary.count('href="#term-item"') >= 1


def test_a_box_is_linked_where_nothing_was_before(tmp_path):
    box = takeaways(["<i>world</i> and a world"]).markup
    out = built(tmp_path, f"# Page\n\n```{{raw}} html\n{box}\n```\n")
    text = (out / "index.html").read_text()
    assert '&lt;i&gt;<a class="reference internal" href="glossary.html#term-planted-world"' in text
    assert "<i>" not in text and text.count("term-planted-world") == 1
