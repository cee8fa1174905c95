"""A card holds all that decides its claim, and leads to where the claim can be disputed."""

import re
from urllib.parse import unquote

import pytest
import yaml

from lib import paths
from lib.data import published
from lib.errors import DataError
from lib.markup import escape
from lib.summary.published import cards, claims, dispute

FORM = paths.ROOT / ".github" / "ISSUE_TEMPLATE" / "dispute.yml"


@pytest.fixture(scope="module")
def table(figures):
    return claims.claims(figures)


def every(table, figures):
    groups = dict.fromkeys(zip(table["system"], table["part"], strict=True))
    return "".join(cards.cards(table, figures["sources"], *group).markup for group in groups)


def test_every_claim_has_a_card_with_all_that_decides_it(table, figures):
    made = every(table, figures).split('<section class="claim"')[1:]
    assert len(made) == len(table)
    for card, row in zip(made, table.to_dict("records"), strict=True):
        assert f'id="claim-{row["key"]}"' in card and 'href="#how-to-dispute-this"' in card
        for name in ("claim", "verdict", "published", "recomputed", "evidence", "formula"):
            assert escape(row[name]) in card
        assert "<dt>Source</dt>" in card and "version: " in card and "<dt>Where</dt>" in card
        assert row["where"] or cards.UNRECORDED in card


def test_a_card_says_what_its_row_is_computed_from(table):
    told = table.set_index("key")["computed_from"]
    assert told["armorm-score"].startswith("figures armorm (rewardbench score); function armorm_s")
    assert told["name-safety"] == "table names (safety)"
    assert told["stratified"] == ""  # nothing to compute


def test_lines_are_linked_at_a_commit(table, figures):
    made = every(table, figures)
    address = "https://github.com/Sat1509/reward-basis-audit/blob/"

    assert re.search(f'"{address}019a03e[0-9a-f]{{33}}/utils.py#L30-L50"', made)
    assert re.search(f'"{address}1480590[0-9a-f]{{33}}/README.md#L13">README.md 13<', made)
    # without a commit: named, not linked
    assert "reward_lens/patching.py 341–346" in made and "patching.py#L341" not in made


def test_what_was_read_in_code_names_its_file(table):
    read = table[table["recomputed"].str.contains("read in text and code")]
    silent = {"stratified"}  # no script there is
    assert set(read["key"][read["code"] == ""]) == silent


def test_a_source_without_a_version_is_refused(tmp_path):
    text = published.FILE.read_text(encoding="utf-8")
    path = tmp_path / "published.yaml"
    path.write_text(text.replace("    version: unknown\n", "", 1), encoding="utf-8")
    with pytest.raises(DataError, match="'version' of the source 'armorm-card'"):
        published.figures(path)
    path.write_text(text.replace("    n: 800\n", "    n: 800\n    n: 900\n", 1), encoding="utf-8")
    with pytest.raises(DataError, match="n 2 times in the entry"):
        published.figures(path)


def test_every_key_leads_to_its_card(table, figures):
    listed = re.findall('href="#claim-([^"]*)"', cards.keys(table).markup)
    assert listed == table["key"].tolist()
    made = every(table, figures)
    assert all(f'id="claim-{key}"' in made and f'data-dispute="{key}"' in made for key in listed)


def test_the_form_is_on_the_page_to_read_and_to_save():
    given = yaml.safe_load(FORM.read_text(encoding="utf-8"))
    markup = dispute.form().markup
    for field in given["body"]:
        assert f"## {field['attributes']['label']}" in markup
    options = [field["attributes"].get("options", []) for field in given["body"]]
    many = sum(map(len, options))
    assert many and markup.count("- [ ] ") == many
    saved = unquote(re.search('href="data:text/markdown;charset=utf-8,([^"]*)"', markup)[1])
    assert saved == dispute.written(given) and f'download="{dispute.NAME}"' in markup
    assert "names no repository" in markup and "repository-code" in markup


def test_a_form_that_is_none_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "dispute.yml"
    monkeypatch.setattr(dispute, "FILE", path)
    for text in (None, "name: [", "- a", "name: a", "name: a\ntitle: b\nbody: [{attributes: {}}]"):
        if text is not None:
            path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match="a form of issues"):
            dispute.form()


def test_the_form_asks_for_the_key_and_for_a_place():
    form = yaml.safe_load(FORM.read_text(encoding="utf-8"))
    asked = {e["id"] for e in form["body"] if e.get("validations", {}).get("required")}
    assert {"key", "what", "correct", "address"} <= asked
    notebook = (paths.ROOT / "notebooks" / "published.ipynb").read_text(encoding="utf-8")
    assert "## How to dispute this" in notebook and form["name"] in notebook
