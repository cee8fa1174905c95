"""Formulas become MathML that a browser draws by itself."""

from xml.etree import ElementTree

import pytest

from lib.book.mathml import mathml
from lib.errors import PageError

NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


def tags(markup: str) -> list[str]:
    return [node.tag.removeprefix(NAMESPACE) for node in ElementTree.fromstring(markup).iter()]


def test_a_fraction_is_a_fraction_of_its_two_parts():
    root = ElementTree.fromstring(mathml(r"\frac{a}{b}"))
    fraction = root.find(f".//{NAMESPACE}mfrac")
    assert [part.find(f"{NAMESPACE}mi").text for part in fraction] == ["a", "b"]


def test_greek_letters_are_characters_and_not_entities():
    assert ElementTree.fromstring(mathml(r"\rho")).find(f".//{NAMESPACE}mi").text == "ρ"


def test_the_source_is_kept_for_those_who_cannot_see_the_formula():
    assert ElementTree.fromstring(mathml(r" h W^\top < 0 ")).get("alttext") == r"h W^\top < 0"


def test_a_display_formula_is_a_block_and_its_lines_are_rows():
    markup = mathml(r"a &= b \\ c &= d", display=True)
    assert ElementTree.fromstring(markup).get("display") == "block"
    assert tags(markup).count("mtr") == 2 and tags(markup).count("mtd") == 4


def test_text_in_a_formula_opens_no_element():
    markup = mathml(r"\text{a <img src=x onerror=alert(1)> b}")
    assert "&lt;img" in markup and "<img" not in markup and "img" not in tags(markup)


@pytest.mark.parametrize("tex", [r"\nosuchcommand{x}", r"\left( x", r"x^{"])
def test_what_cannot_be_read_is_an_error_with_the_formula(tex):
    with pytest.raises(PageError, match="formula that becomes MathML"):
        mathml(tex)


@pytest.mark.parametrize("tex", [r"\href{javascript:alert(1)}{x}", r"\style{color:red}{x}"])
def test_a_formula_neither_links_nor_styles(tex):
    with pytest.raises(PageError, match="an attribute"):
        mathml(tex)
