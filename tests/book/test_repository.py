"""One line of one file names the repository to every page, and nothing leads nowhere without it."""

from types import SimpleNamespace

import pytest

from lib import paths
from lib.book import citing, repository
from lib.errors import PageError
from lib.markup import Html
from lib.summary.published import cards, dispute

HERE = "https://example.org/o/r"


@pytest.fixture
def named(monkeypatch):
    def name(address):
        monkeypatch.setattr(citing, "citation", lambda: {"repository-code": address})

    return name


def config(**options):
    return SimpleNamespace(html_theme_options=options)


def test_the_committed_citation_can_be_read():
    assert repository.address() == (citing.citation().get("repository-code") or "").rstrip("/")


def test_the_line_gives_the_theme_its_buttons(named):
    named(f"{HERE}/")
    given = config(use_edit_page_button=False)
    repository._name(None, given)
    assert given.html_theme_options == {
        "repository_url": HERE,
        "repository_branch": "main",
        **dict.fromkeys(
            [f"use_{kind}_button" for kind in ("edit_page", "repository", "issues")], True
        ),
    }


def test_without_the_line_there_are_none(named):
    for nothing in (None, ""):
        named(nothing)
        given = config(use_edit_page_button=False)
        repository._name(None, given)
        assert given.html_theme_options == {"use_edit_page_button": False}


def test_each_claim_leads_to_the_form_with_its_key():
    claim = '<a href="#how-to-dispute-this" data-dispute="hh-stars">how</a>'
    body = f"<p>a</p>{claim}{dispute.form().markup}"
    assert repository.filled(body, "") == body
    made = repository.filled(body, HERE)
    form = f"{HERE}/issues/new?template=dispute.yml"
    assert f'<a href="{form}&amp;title=Dispute%3A+hh-stars&amp;key=hh-stars" data-' in made
    assert f'<p class="dispute-where"><a href="{form}">Open the form</a>' in made
    assert "names no repository" not in made and "<pre># Dispute" in made


def test_a_book_without_a_citation_names_none(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert repository.address() == ""


@pytest.mark.parametrize("address", ["http://a.b", "javascript:x", 'https://a"b', "git@a:b"])
def test_what_is_no_address_is_refused(named, address):
    named(address)
    with pytest.raises(PageError, match="repository-code in CITATION.cff"):
        repository.address()


def test_what_is_filled_is_what_pages_show(figures_of_claims):
    made = repository.filled(figures_of_claims.markup, HERE)
    assert made.count(HERE) == figures_of_claims.markup.count("data-dispute=") > 0


@pytest.fixture
def figures_of_claims() -> Html:
    from lib.data import published
    from lib.summary.published import claims

    figures = published.figures()
    return cards.cards(claims.claims(figures), figures["sources"], "SARM")
