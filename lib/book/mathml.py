r"""A Sphinx extension: formulas become MathML when the book is built.

Browsers draw MathML themselves, so that a page with formulas needs no script and no font
from elsewhere, and text in a page that looks like a formula stays text. ``_config.yml``
names this module as an extension and ``mathml`` as the renderer.

What the converter doesn't know is a warning, with which the build fails: a formula that is
shown half is worse than none.
"""

from __future__ import annotations

import html
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from lib.errors import PageError

FORBIDDEN = {"href", "style", "class", "id"}  # attributes that a formula has no need of


def mathml(tex: str, display: bool = False) -> str:
    r"""A formula as a ``math`` element, with its source as ``alttext``.

    It is LaTeX without delimiters; with ``\\`` its lines are aligned at ``&``.

    Raises
    ------
    PageError
        For a formula that is malformed, or has a command that isn't known.
    """
    tex = tex.strip()
    lines = rf"\begin{{split}}{tex}\end{{split}}" if _has_lines(tex) else tex
    try:
        element = convert_to_element(lines, display="block" if display else "inline")
    except Exception as error:  # the converter's own kinds, and an IndexError for some
        raise _unreadable(tex, f"{type(error).__name__} {error}".strip()) from None
    for node in element.iter():
        # The converter writes characters as entities into the tree itself.
        node.text = html.unescape(node.text) if node.text else node.text
        if node.text and node.text.startswith("\\"):
            raise _unreadable(tex, f"the unknown command {node.text}")
        if FORBIDDEN & set(node.attrib):
            raise _unreadable(tex, f"an attribute {min(FORBIDDEN & set(node.attrib))}")
    element.set("alttext", tex)
    return ElementTree.tostring(element, encoding="unicode")


def _has_lines(tex: str) -> bool:
    return r"\\" in tex and r"\begin" not in tex


def _unreadable(tex: str, found: str) -> PageError:
    return PageError(
        "a formula that becomes MathML",
        f"{found} in {tex!r}",
        "Write it with commands that latex2mathml knows.",
    )


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_element(translator, node, "span", display=False) + "</span>")
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    # The number stands before the formula, as its anchor: styles put it at the right.
    opened = _element(translator, node, "div", display=True)
    if node["number"]:
        number = html.escape(str(get_node_equation_number(translator, node)))
        opened += f'<span class="eqno">({number})</span>'
    translator.body.append(opened + "</div>\n")
    raise nodes.SkipNode


def _element(translator: Any, node: nodes.Element, tag: str, display: bool) -> str:
    start = translator.starttag(node, tag, "", CLASS="math notranslate nohighlight")
    try:
        return start + mathml(node.astext(), display)
    except PageError as error:
        logging.getLogger(__name__).warning(str(error), location=node)
        return f"{start}<code>{html.escape(node.astext())}</code>"


def setup(app: Any) -> dict[str, Any]:
    """Offer the renderer to Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
