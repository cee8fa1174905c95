"""Where a user's models and data lie outside of the checkout is nobody's business but theirs."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from lib import paths
from lib.book import plan, toc
from lib.charts import theme


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


@pytest.mark.slow
def test_no_file_of_the_site_tells_where_a_model_or_data_lies(tmp_path):
    secret = tmp_path / "home-of-anna"
    model = secret / "my rm"
    model.mkdir(parents=True)
    heads = [{"name": f"h{i}", "source": "me", "concept": ""} for i in range(2)]
    card = {"heads": heads, "split": {"rule": "none", "train": []}}
    (model / "card.json").write_text(json.dumps(card))
    weight = np.random.default_rng(0).standard_normal((2, 576)).astype(np.float32)
    save_file({"weight": weight, "bias": np.zeros(2, np.float32)}, model / "heads.safetensors")
    rows = [{"prompt": f"q {i}", "chosen": f"yes {i}", "rejected": "no"} for i in range(12)]
    data = secret / "my pairs.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))

    root = tmp_path / "checkout"
    (root / "book").mkdir(parents=True)
    shutil.copytree(paths.LIB, root / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "_config.yml", "book/references.bib"):
        shutil.copy(paths.ROOT / name, root / name)
    shutil.copytree(paths.BOOK / "_static", root / "book" / "_static")
    (root / "book" / "_static" / "vega.js").write_text(theme.vega_bundle())
    (root / "book" / "index.md").write_text("# Small\n\nA book.\n")
    (root / "notebooks").mkdir()
    for name in ("data", "validity", "model", "scorecard", "status"):
        shutil.copy(paths.NOTEBOOKS / f"{name}.ipynb", root / "notebooks")
    (root / "audit.yml").write_text(yaml.safe_dump({"pages": [{"notebook": "status"}]}))
    done = subprocess.run(
        [sys.executable, "-m", "lib", "audit", "--model", model, "--datasets", f"'file:{data}'"],
        cwd=root, capture_output=True, text=True, timeout=600,
        env=os.environ | {"PYTHONPATH": str(root), "REWARD_AUDIT_CACHE": str(paths.cache())},
    )  # fmt: skip
    assert done.returncode == 0 and "The book is built" in done.stdout, done.stdout + done.stderr
    site = root / "book" / "_build" / "html"
    found = [path for path in site.rglob("*") if path.is_file()]
    telling = [path for path in found if b"home-of-anna" in path.read_bytes()]
    assert not telling and not [
        path for path in found if "home-of-anna" in str(path.relative_to(site))
    ]
    shown = paths.public(str(model))
    page = site / "book/results" / paths.slug(shown) / "scorecard.html"
    assert shown in page.read_text()
    local = yaml.safe_load((root / "audit.local.yml").read_text())
    assert local["audits"][0]["model"] == str(model)
