"""Where a user's models and data lie outside of the checkout is nobody's business but theirs."""

import json

import yaml

from lib import paths
from lib.book import plan, toc


def test_a_path_elsewhere_is_named_by_its_last_part():
    # With the first digits of the path's SHA-256.
    assert paths.public("/home/anna/rm v1.5") == "rm v1.5-fa552be1"
    assert paths.public("file:/home/anna/pairs.jsonl") == "file:pairs-8c187b1a.jsonl"
    for name in ("smol-armo", "org/model-8B", "file:data/pairs.jsonl", "", "hh-rlhf/harmless-base"):
        assert paths.public(name) == name
    # Nothing that looks like a kind of dataset hides a path.
    assert "anna" not in paths.public("/home/anna/file:x")
    assert paths.public("/a/x") != paths.public("/b/x")


def test_a_text_names_places_as_the_page_does(monkeypatch):
    places = {"rm-1": "/home/anna/rm", "file:a-2.jsonl": "file:/home/anna/rm/a.jsonl"}
    monkeypatch.setenv(paths.PLACES, json.dumps(places))
    assert paths.place("rm-1") == "/home/anna/rm" and paths.place("other") == "other"
    assert paths.shown("/home/anna/rm") == "rm-1"
    found = "weights at /home/anna/rm/model.safetensors, not file:/home/anna/rm/a.jsonl"
    assert paths.shown(found) == "weights at rm-1/model.safetensors, not file:a-2.jsonl"
    assert paths.shown("no row 3 in /home/anna/rm/a.jsonl") == "no row 3 in a-2.jsonl"


def test_pages_and_their_places_have_public_names(tmp_path):
    model, data = tmp_path / "rm", tmp_path / "pairs.jsonl"
    entry = {"name": f"file:{data}"}
    audits = [
        {
            "model": str(model),
            "datasets": [entry],
            "pages": ["data"],
            "once": [{"notebook": "model"}],
        }
    ]
    (tmp_path / "audit.yml").write_text(yaml.safe_dump({"audits": audits}))
    planned = plan.read(tmp_path / "audit.yml")
    for page in planned.pages:
        said = json.dumps(
            [page.output, page.about, page.parameters, page.runs[0].folder]
            if page.runs
            else [page.output, page.about, page.parameters]
        )
        assert str(tmp_path) not in said and tmp_path.name not in said
        assert set(page.places.values()) <= {str(model), f"file:{data}"}
    assert planned.pages[0].places[paths.public(f"file:{data}")] == f"file:{data}"
    assert str(tmp_path) not in toc.render(planned)
