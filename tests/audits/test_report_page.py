"""``report.html``: one file that asks for no other, and shows no text of datasets."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lib import paths
from lib.__main__ import main
from lib.analyses.exploits import words as surfaces
from lib.audits import command, document, measure, page
from lib.audits.figures import Inks, drawing, figure
from lib.charts.render import Chart
from lib.charts.winrates import validity as draw
from lib.errors import ParameterError
from lib.extraction import save_run
from lib.stats import baselines, validity

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)> $x$ "\u202e'
AXES = ["length", "formatting"] * 60


@pytest.fixture
def report(audited):
    """The page of kept runs, with what was found."""

    def make(*runs, **options):
        found = audited(*runs, **options)
        return page.page(found, document.document([command.of(found)])), found

    return make


@pytest.fixture
def chart(run_of):
    run = run_of()
    return draw(validity(run), baselines(run, directions=5))


def test_a_drawing_has_one_property_for_each_pair_of_colours(chart):
    inks = Inks()
    root = ET.fromstring(drawing(chart, inks, 720, "f1"))
    light, dark = (ET.fromstring(chart.svg(720, dark=mode)) for mode in (False, True))
    style = inks.style()
    for element, one, other in zip(root.iter(), light.iter(), dark.iter(), strict=True):
        for name in ("fill", "stroke"):
            if one.get(name) == other.get(name):
                assert element.get(name) == one.get(name)
            else:
                prop = re.fullmatch(r"var\((--ink-\d+)\)", element.get(name))[1]
                assert re.findall(rf"{prop}:([^;}}]+)", style) == [one.get(name), other.get(name)]
    assert [t.text for t in root.iter("text")] == [
        t.text for t in light.iter("{http://www.w3.org/2000/svg}text")
    ]


def test_drawings_of_one_page_share_no_id_and_hold_nothing_that_acts(chart):
    inks = Inks()
    markup = figure(chart, inks, 1) + figure(chart, inks, 2)
    ids = re.findall(r'\bid="([^"]+)"', markup)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([\w-]+)\)", markup)) <= set(ids)
    assert not re.search(
        r"<(script|a |image|foreignObject)|\son\w+=|xlink", markup.split("<figcap")[0]
    )


def test_a_drawing_that_is_too_large_is_told_in_words(chart, monkeypatch):
    monkeypatch.setattr("lib.audits.figures.LARGEST", 10)
    markup = figure(chart, Inks(), 1)
    assert "<svg" not in markup and "head_0" in markup and "Data:" in markup


def test_a_caption_says_nothing_of_menus(run_of):
    given = draw(validity(run_of()), baselines(run_of(), directions=5))
    told = Chart.__new__(Chart)
    told.__dict__ = given.__dict__ | {"caption": "Shares. A menu shows more. Point at one. Done."}
    assert "Shares. Done." in figure(told, Inks(), 1)


def test_the_page_asks_for_nothing_and_runs_nothing(report, run_of):
    text, _ = report(run_of(), run_of("stimuli/exploits", subset=AXES))
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|link|iframe|img|object|embed)\b", text)
    addresses = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert {a.partition(":")[0] if a[0] != "#" else "#" for a in addresses} == {"#", "data"}
    assert "url(http" not in text and "@import" not in text
    anchors = {a[1:] for a in addresses if a[0] == "#"}
    assert anchors <= set(re.findall(r'\bid="([^"]+)"', text))


def test_the_page_says_what_the_books_pages_say(report, run_of):
    text, found = report(run_of("stimuli/exploits", subset=AXES))
    table = found.left.read("exploits", "stimuli/exploits")
    assert surfaces.answer(table) in text.replace("&#x27;", "'")
    (row,) = table[table["axis"] == "length"].tail(1).itertuples()
    assert f"{row.win_rate:.2f}" in text


def test_hostile_names_stay_text(report, run_of):
    run = run_of("stimuli/exploits", heads=3, subset=[HOSTILE, "b"] * 60)
    run = run.assign_coords(head=[HOSTILE, "'; x", "c"])
    text, _ = report(run.assign_attrs(model=HOSTILE))
    assert "<script" not in text and "<img" not in text and "\u202e" not in text
    assert "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize("change", ["nan", "constant", "one head", "no score"])
def test_odd_models_have_a_page(report, run_of, change):
    run = run_of(heads=1 if change == "one head" else 2)
    if change == "nan":
        run["score"][:, 0] = np.nan
    if change == "constant":
        run["score"][:] = 0
    if change in ("no score", "one head"):
        run = run.drop_vars("final")
    text, _ = report(run)
    words = re.sub(r"<(style|svg).*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    assert not re.search(r"\b(nan|NaN|inf)\b", words.replace("NaN is", ""))


def test_many_heads_keep_within_the_limit(report, run_of, monkeypatch):
    monkeypatch.setattr("lib.audits.figures.HIGHEST", 500)
    text, _ = report(run_of("stimuli/exploits", heads=120, subset=AXES))
    assert len(text.encode()) < page.LARGEST / 2
    assert "The first 200 of 242 rows" in text
    assert page.FEWER.format(120) in report(run_of(heads=120), name="whole")[0]


def test_kept_runs_are_not_checked_and_have_no_other_without_being_told(report, run_of):
    text, found = report(run_of("file:rows.jsonl"))
    assert found.checked is None and page.NO_CHECK.replace("'", "&#x27;") in text
    assert page.NO_EXPLOITS in text and "--against MODEL" in text
    kept = str(found.left.folder.parents[1] / "kept")
    with pytest.raises(ParameterError, match="datasets of the runs"):
        measure.audit(kept, ["no"], "x")


def test_the_command_writes_both_files_and_they_agree(run_of, tmp_path, capsys):
    for name in ("one", "two"):
        save_run(run_of(seed=len(name)), tmp_path / name)
    target = tmp_path / "report.html"
    given = [str(tmp_path / "one"), "--against", str(tmp_path / "two"), "--out", str(target)]
    assert main(["report", *given]) == 0
    found = document.load(tmp_path / "audit.json")
    rows = [row for row in found["models"][0]["verdicts"] if row["of"] == "compare"]
    assert [row["dataset"] for row in rows] == ["xstest"]
    one, other = (paths.public(str(tmp_path / name)) for name in ("one", "two"))
    assert rows[0]["judged"] in (one, other)
    assert re.search(r'<h3 id="pair-0">[^<]* and [^<]*</h3><figure', target.read_text())
    assert str(tmp_path) not in target.read_text() + json.dumps(found)
    assert main(["report", str(tmp_path / "one"), "--out", str(tmp_path / "no/r.html")]) == 1
    assert "no folder" in capsys.readouterr().err


@pytest.mark.slow
def test_a_tiny_checkpoint_and_a_file_of_rows_make_a_page(write_tiny, tmp_path):
    write_tiny.write_classifier(tmp_path / "model", max_position_embeddings=4096)
    rows = [
        {"prompt": f"Question {k}", "chosen": f"{HOSTILE} {k}", "rejected": "SECRETWORD"}
        for k in range(20)
    ]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "rows.jsonl").write_text(lines)
    target = tmp_path / "report.html"
    given = ["--datasets", f"file:{tmp_path}/rows.jsonl", "--out", str(target), "--quick"]
    assert main(["report", str(tmp_path / "model"), *given]) == 0
    found = document.load(tmp_path / "audit.json")["models"][0]
    assert found["check"] == "right" and len(found["fingerprint"]) == 6
    sizes = {each["name"]: each["outcomes"]["n"] for each in found["datasets"]}
    assert sizes.pop("stimuli/exploits") == 540 and list(sizes.values()) == [20]
    text = target.read_text() + (tmp_path / "audit.json").read_text()
    for secret in ("SECRETWORD", "Question", "alert(1)", str(tmp_path)):
        assert secret not in text
    assert target.stat().st_size < page.LARGEST
