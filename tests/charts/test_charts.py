"""Charts draw the tables they are given, for every reader, whatever the names hold."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import itertools
import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
import vl_convert

from lib import charts, downloads, markup, paths, stats
from lib.analyses.cascade import stats as cascade
from lib.analyses.concepts import conflict, directions
from lib.analyses.data import charts as data_charts
from lib.analyses.data import stats as data_tables
from lib.analyses.exploits import stats as exploits
from lib.analyses.labels import words as labels
from lib.analyses.sarm import stats as sarm
from lib.analyses.selection import stats as selection
from lib.analyses.separability import readout
from lib.analyses.steering import stats as steering
from lib.charts import render, theme
from lib.errors import DataError
from lib.planted import checks
from lib.planted.worlds import make_run, validity_world
from lib.stats.winrates import VERDICTS
from lib.summary.compare import agreement

STATIC = paths.BOOK / "_static"
HOSTILE = [
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "</textarea><img src=x onerror=window.hacked=1>",
    "{{ 7*7 }}{% raw %}",
    "$$x^2$$ \\(y\\)",
    "a \"quoted\" 'name', with comma",
    "\u202eright to left\u202c \u200f",
    "\x1b[31mred\x1b[0m\nnew line\n---\n\u2028\u2029",
    "=cmd|'/c calc'!A0",
    "datum['x'].constructor",
    "x" * 1_000_000,
]


def table_of(**columns) -> pd.DataFrame:
    """A table of win rates as ``lib.stats.validity`` returns it, from a few columns."""
    n = len(columns["head"])
    frame = pd.DataFrame({"subset": "all", "n": 100, "prompts": 100, "note": ""} | columns)
    rate = frame["win_rate"]
    defaults = {"wins": 100 * rate, "ties": 0.0, "losses": 100 - 100 * rate, "mde": 0.1}
    defaults |= {"low": rate - 0.05, "high": rate + 0.05, "p": 0.5, "p_adjusted": 0.5}
    for name, value in defaults.items():
        if name not in frame:
            frame[name] = value if not np.isscalar(value) else [value] * n
    return frame


@pytest.fixture(scope="module")
def world():
    run = validity_world()
    return stats.validity(run), stats.baselines(run)


def drawn(chart) -> pd.DataFrame:
    """The table inside a chart's spec."""
    (text,) = [t for t in chart.spec["datasets"].values() if t[:8] == "row,kind"]
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


def downloaded(chart) -> pd.DataFrame:
    link = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', chart.html()).group(1)
    return pd.read_csv(io.StringIO(unquote(link)))


class Tags(HTMLParser):
    """Elements, attributes and texts of a fragment, as a browser would find them."""

    def __init__(self, markup: str):
        super().__init__()
        self.tags, self.attributes, self.text, self.script = [], [], "", ""
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        if self.tags[-1] == "script":
            self.script += data
        else:
            self.text += data


# ---- Colour ----


def linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio."""
    dark, light = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (one, other))
    return (light + 0.05) / (dark + 0.05)


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "all cones": np.eye(3).tolist(),
}


def lab(colour: str, eye: str) -> np.ndarray:
    """CIE L*a*b* (D65) of a colour as that eye sees it."""
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    seen = np.clip(np.array(EYES[eye]) @ linear(colour), 0, 1)
    t = (np.array(to_xyz) @ seen) / [0.95047, 1, 1.08883]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_the_rulers_measure():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert lab("#ffffff", "all cones") == pytest.approx([100, 0, 0], abs=0.01)
    red_green = [np.linalg.norm(lab("#b00000", eye) - lab("#5a5a00", eye)) for eye in EYES]
    assert red_green[1] < 20 < 50 < red_green[3], "a deutan eye confuses what others tell apart"


def test_every_verdict_has_a_mark_of_its_own():
    assert set(theme.VERDICTS) == set(VERDICTS)
    marks = theme.VERDICTS.values()
    assert len({(mark.shape, mark.hollow) for mark in marks}) == len(VERDICTS)
    assert len({mark.glyph for mark in marks}) == len(VERDICTS)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_words_can_be_read_in_both_modes(mode):
    background = theme.INKS["background"][mode]
    for verdict in theme.VERDICTS.values():
        assert contrast((verdict.light, verdict.dark)[mode], background) >= 4.5
    for role in ("text", "muted", "baseline", "better", "worse"):
        assert contrast(theme.INKS[role][mode], background) >= 4.5


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colour_blind_readers_tell_verdicts_apart(mode, eye):
    seen = {name: lab(getattr(mark, mode), eye) for name, mark in theme.VERDICTS.items()}
    for one, other in itertools.combinations(seen, 2):
        if {one, other} != {"inconclusive", "undefined"}:  # both say that nothing was found
            assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)


def stylesheet(mode: str) -> dict[str, str]:
    """Custom properties that the stylesheet sets in a mode."""
    text = (STATIC / "custom.css").read_text()
    selector = {"light": ':not([data-theme="dark"])', "dark": '[data-theme="dark"]'}[mode]
    block = re.search(rf"^html{re.escape(selector)} \{{(.*?)\}}", text, re.M | re.S).group(1)
    return dict(re.findall(r"(--[\w-]+):\s*(#[0-9a-f]{6});", block))


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_site_and_charts_wear_the_same_colours(mode):
    sheet = stylesheet(mode)
    for name, mark in theme.VERDICTS.items():
        assert sheet[f"--verdict-{name}"] == getattr(mark, mode)
    background = theme.INKS["background"][mode == "dark"]
    for name in ("text-base", "text-muted", "heading", "link", "link-hover", "inline-code"):
        for behind in (background, sheet["--quiet"]):
            assert contrast(sheet[f"--pst-color-{name}"], behind) >= 4.5, name
    glyphs = (STATIC / "custom.css").read_text()
    for mark in theme.VERDICTS.values():
        assert f'"{mark.glyph}"' in glyphs


@pytest.mark.parametrize(
    "verdicts",
    [
        (*directions.FOUND, *directions.PAID, *conflict.VERDICTS),
        (cascade.ALIGNED, cascade.MISALIGNED, cascade.TOGETHER, cascade.OPPOSED),
        (agreement.TOGETHER, agreement.APART, agreement.NOT_SHOWN),
        (selection.BETTER, selection.WORSE, selection.NOT_TOLD),
        (*exploits.VERDICTS, "rises", "falls"),
        (*readout.VERDICTS, *labels.AGREEMENT),
        (sarm.BETTER, sarm.WORSE, sarm.OWN, sarm.SHARED, sarm.NOT_SHOWN),
        (steering.CORRECTS, steering.HARMS, steering.NOT_SHOWN),
        checks.VERDICTS,
    ],
    ids=[
        *("concepts", "cascade", "compare", "selection", "exploits", "separability and labels"),
        *("sarm", "steering", "calibration"),
    ],
)
def test_what_was_found_wears_no_mark_of_what_could_not_be_told(verdicts):
    styled = (STATIC / "custom.css").read_text()
    for verdict in set(verdicts) - {"undefined"}:
        (kind,) = re.findall(r"verdict-[a-z-]+", markup.chip(verdict))
        assert f".{kind}.{kind}" in styled, verdict


def test_no_style_asks_for_anything_elsewhere():
    for file in ("custom.css", "charts.js"):
        assert not re.search(r"https?://|@import|url\(", (STATIC / file).read_text())


# ---- Validity ----


def test_every_head_has_a_point_an_interval_and_its_verdict_in_the_drawing(world):
    table, baselines = world
    svg = ET.fromstring(charts.validity(table, baselines).svg())
    marks = Counter()
    for group in svg.iter("{http://www.w3.org/2000/svg}g"):
        kind = group.get("class", "").split()[0] if group.get("class") else ""
        marks[kind] += len(list(group)) if kind.startswith("mark-") else 0
    assert marks["mark-symbol"] == 5, "one point a head"
    # interval of 5 heads and 4 baselines, a line under 10 rows, two reference lines; axis ticks
    ticks = sum(
        len(list(group))
        for group in svg.iter("{http://www.w3.org/2000/svg}g")
        if "role-axis-tick" in group.get("class", "")
    )
    assert marks["mark-rule"] - ticks == 5 + 4 + 10 + 2
    words = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    for row in table.itertuples():
        assert row.head in words
        assert row.verdict in words
        assert f"{row.win_rate:.2f}" in words


def test_intervals_are_as_long_as_the_table_says(world):
    table = world[0]
    svg = ET.fromstring(charts.validity(table).svg())
    colours = {mark.light for mark in theme.VERDICTS.values()}
    lengths = [
        abs(float(line.get("x2")))
        for line in svg.iter("{http://www.w3.org/2000/svg}line")
        if line.get("stroke") in colours
    ]
    true = (table["high"] - table["low"]).to_numpy()
    scale = sum(lengths) / true.sum()  # px for the whole of a win rate
    assert sorted(lengths) == pytest.approx(sorted(scale * true), abs=0.1)
    assert scale > 400


def test_numbers_are_the_tables_own(world):
    table, baselines = world
    rows = drawn(charts.validity(table, baselines)).set_index("name")
    for row in table.itertuples():
        shown = rows.loc[row.head]
        assert shown["rate"] == pytest.approx(row.win_rate, abs=1e-5)
        assert (shown["low"], shown["high"]) == pytest.approx((row.low, row.high), abs=1e-5)
        assert (shown["wins"], shown["ties"], shown["losses"]) == (row.wins, row.ties, row.losses)
        assert shown["verdict"] == row.verdict
    for row in baselines.itertuples():
        assert rows.loc[row.baseline, "rate"] == pytest.approx(row.win_rate, abs=1e-5)
    assert rows["row"].is_unique


def test_large_counts_stay_whole():
    table = table_of(head=["h"], win_rate=[0.5], verdict=["chance"], n=[1234567], wins=[617283.5])
    rows = drawn(charts.validity(table))
    assert rows["n"].tolist() == [1234567]
    assert rows["wins"].tolist() == [617283.5]


def test_heads_stand_by_win_rate_and_keep_their_place_in_every_subset():
    part = {"head": ["a", "b", "c"], "verdict": ["tracks", "undefined", "strong"]}
    table = pd.concat(
        [
            table_of(**part, win_rate=[0.6, np.nan, 0.7]),
            table_of(**part, win_rate=[0.8, 0.5, 0.3], subset="x"),
            table_of(**part, win_rate=[0.7, 0.5, 0.4], subset="y"),
        ]
    )
    rows = drawn(charts.validity(table))
    place = rows.groupby("name")["row"].unique().map(list).to_dict()
    assert place == {"c": [0], "a": [1], "b": [2]}


def test_a_menu_names_the_subsets_only_where_there_are_several(world):
    def menu(chart):
        (found,) = [p for p in chart.spec["params"] if p["name"] == "subset"]
        return found.get("bind", {}).get("labels")

    table = world[0]
    assert menu(charts.validity(table)) is None
    only = pd.concat([table, table.assign(subset="harmless-base")])
    assert menu(charts.validity(only)) is None, "a single subset repeats all"
    assert len(drawn(charts.validity(only))) == len(table)
    some = pd.concat([table, table.assign(subset="harmless-base", n=table["n"] // 2)])
    assert menu(charts.validity(some)) == ["all", "harmless-base"]
    two = pd.concat([only, table.assign(subset="helpful-base")])
    assert menu(charts.validity(two)) == ["all", "harmless-base", "helpful-base"]


def test_the_axis_holds_every_interval_and_the_references():
    part = {"head": ["a"], "verdict": ["strong"]}
    table = pd.concat(
        [
            table_of(**part, win_rate=[0.7]),
            table_of(**part, win_rate=[0.16], subset="x"),
            table_of(**part, win_rate=[0.93], subset="y"),
        ]
    )
    text = json.dumps(charts.validity(table).spec)
    assert '"domain": [0.0, 1.0]' in text  # intervals reach .11 and .98
    assert '"domain": [0.2, 0.8]' in json.dumps(
        charts.validity(table_of(**part, win_rate=[0.7])).spec
    )
    for line in ('"datum": 0.5,', '"datum": 0.65,', '"datum": 0.45,', '{"datum": 0.55}'):
        assert line in text


def test_a_head_without_numbers_is_named_with_its_reason():
    table = table_of(
        head=["fine", "broken"],
        win_rate=[0.6, np.nan],
        verdict=["tracks", "undefined"],
        note=["", "scores that are not numbers"],
    )
    chart = charts.validity(table)
    assert "broken undefined (scores that are not numbers)" in chart.alternative
    words = [t.text for t in ET.fromstring(chart.svg()).iter("{http://www.w3.org/2000/svg}text")]
    assert "scores that are not numbers" in words
    assert "–" in words
    assert "NaN" not in chart.svg()


def test_alternative_text_says_what_the_picture_shows():
    table = table_of(head=["a", "b"], win_rate=[0.4, 0.7], verdict=["inverted", "strong"])
    assert charts.validity(table).alternative == (
        "Win rates of 2 heads with intervals and verdicts, on all: "
        "b 0.70 [0.65, 0.75] strong; a 0.40 [0.35, 0.45] against these labels."
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="low"), "column 'low'"),
        (lambda t: t.iloc[:0], "a row in the table"),
        (lambda t: t.assign(verdict="valid"), "'valid'"),
    ],
)
def test_a_table_that_cannot_be_drawn_is_an_error(world, change, says):
    with pytest.raises(DataError, match=re.escape(says)):
        charts.validity(change(world[0]))


def test_a_table_that_may_be_empty_still_needs_its_columns():
    table = table_of(head=["a"], win_rate=[0.4], verdict=["inverted"])
    none = table.iloc[:0]
    render.require(none, ("head", "verdict"), "verdicts", empty=True)
    with pytest.raises(DataError, match="a row in the table of verdicts"):
        render.require(none, ("head", "verdict"), "verdicts")
    with pytest.raises(DataError, match="column 'n_heads' in the table of verdicts"):
        render.require(none, ("head", "n_heads"), "verdicts", empty=True)


def test_baselines_of_another_shape_are_an_error(world):
    with pytest.raises(DataError, match="column 'baseline'"):
        charts.validity(world[0], world[0])


# ---- Data ----


def two_bins() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "side": ["better", "better", "worse", "worse"],
            "low": [1.0, 4.0, 1.0, 4.0],
            "high": [4.0, 9.0, 4.0, 9.0],
            "share": [0.25, 0.75, 0.5, 0.5],
        }
    )


def test_lengths_close_the_last_bin_and_name_both_sides():
    chart = data_charts.lengths(two_bins())
    (edges,) = [
        pd.read_csv(io.StringIO(text))
        for text in chart.spec["datasets"].values()
        if "side" in text.splitlines()[0]
    ]
    last = edges[(edges["low"] == 9) & (edges["side"] == "preferred")]
    assert last["share"].tolist() == [0.75]
    assert chart.alternative == (
        "Distributions of response lengths from 1 to 8 tokens: preferred responses have most "
        "often 4 to 8 tokens (75%); other responses have most often 1 to 3 tokens (50%)."
    )
    words = [t.text for t in ET.fromstring(chart.svg()).iter("{http://www.w3.org/2000/svg}text")]
    assert {"preferred", "other", "2", "4", "8"} <= set(words)


def test_lengths_of_a_real_run_are_drawn(world):
    table = data_tables.lengths(validity_world())
    pd.testing.assert_frame_equal(downloaded(data_charts.lengths(table)), table, check_dtype=False)


def test_dropped_counts_every_step_and_reason():
    table = pd.DataFrame(
        {
            "step": ["read", "dropped", "scored"],
            "reason": ["", "prompts differ", ""],
            "items": [1200, 9, 1191],
        }
    )
    chart = data_charts.dropped(table)
    assert chart.alternative == (
        "Items by step: read 1,200; dropped: prompts differ 9; scored 1,191."
    )
    words = [t.text for t in ET.fromstring(chart.svg()).iter("{http://www.w3.org/2000/svg}text")]
    assert {"1,200", "9", "1,191", "dropped: prompts differ"} <= set(words)


@pytest.mark.parametrize("function", [data_charts.lengths, data_charts.dropped])
def test_data_charts_refuse_other_tables(function, world):
    with pytest.raises(DataError, match="column"):
        function(world[0])


# ---- On the page ----


def hostile_chart():
    n = len(HOSTILE)
    part = {"head": HOSTILE, "win_rate": np.linspace(0.3, 0.7, n), "verdict": ["chance"] * n}
    return charts.validity(
        pd.concat(
            [
                table_of(**part),
                *(table_of(**part, subset=name, note=name) for name in HOSTILE[:3]),
            ]
        )
    )


def test_hostile_names_stay_text():
    markup = hostile_chart().html()
    page = Tags(markup)
    assert page.tags == ["figure", "div", "p", "figcaption", "span", "span", "a", "a", "script"]
    assert not {name for name in page.attributes if name.startswith("on")}
    assert "</textarea><img src=x onerror=window.hacked=1>" in page.text, "shown as itself"
    for forbidden in "<>&\u2028\u2029\u202e\x1b":
        assert forbidden not in page.script, repr(forbidden)
    assert len(markup) < 100_000, "a name of a million letters is cut"
    call = page.script.removeprefix("(window.rewardCharts=window.rewardCharts||[]).push(")
    identifier, spec = json.loads(call.removesuffix(");"))
    assert spec == hostile_chart().spec
    assert f'id="{identifier}"' in markup


def test_line_of_any_origin_becomes_one_plain_line():
    assert render.plain("a\x1b[31m\nb") == "a␛[31m b"
    assert render.plain("\u202eabc") == "[U+202E]abc"
    assert render.plain("שלום") == "שלום"
    assert render.plain("x" * 200, longest=10) == "x" * 9 + "…"


def test_the_download_is_the_table(world):
    table, baselines = world
    kept = downloaded(charts.validity(table))
    pd.testing.assert_frame_equal(
        kept[["head", "n", "win_rate", "low", "high"]],
        table[["head", "n", "win_rate", "low", "high"]],
        rtol=1e-8,
    )
    both = downloaded(charts.validity(table, baselines))
    assert len(both) == len(table) + len(baselines)
    assert both["head"].tolist()[-1] == "random direction"


def test_a_download_runs_no_formula():
    table = table_of(head=["=1+1", "-x"], win_rate=[0.4, 0.6], verdict=["chance"] * 2)
    link = downloads.csv_link(table[["head", "win_rate"]])
    rows = list(csv.reader(io.StringIO(unquote(link.partition(",")[2]))))
    assert rows == [["head", "win_rate"], ["'=1+1", "0.4"], ["'-x", "0.6"]]


def test_a_figures_data_is_there_with_its_types_too(world):
    chart = charts.validity(world[0])
    link = re.search(r'href="data:application/vnd.apache.parquet;base64,([^"]*)"', chart.html())
    kept = pd.read_parquet(io.BytesIO(base64.b64decode(link[1])))
    pd.testing.assert_frame_equal(kept, chart.data, check_dtype=False)


def test_columns_of_mixed_types_and_long_texts_are_kept():
    frame = pd.DataFrame({"value": [1, "two", None], "text": ["x" * 500, "=y", ""]})
    link = downloads.parquet_link(frame)
    kept = pd.read_parquet(io.BytesIO(base64.b64decode(link.partition(",")[2])))
    assert kept["value"].fillna("none").tolist() == ["1", "two", "none"]
    assert kept["text"].tolist() == frame["text"].tolist()
    rows = list(csv.reader(io.StringIO(unquote(downloads.csv_link(frame).partition(",")[2]))))
    assert rows[1] == ["1", "x" * 500]


def test_a_link_that_is_too_long_is_left_out():
    frame = pd.DataFrame({"a": [1.5] * 40})
    both = downloads.links(frame, "n")
    assert re.findall(r'download="([^"]*)"', both) == ["n.csv", "n.parquet"]
    assert downloads.links(frame, "n", longest=10) == ""


def test_words_of_a_figure_end_as_a_sentence_does():
    assert render.sentences("Two heads") == "Two heads."
    assert render.sentences("Two heads. ") == "Two heads."
    long = render.sentences("Heads. " + "; ".join(["a head 0.50 [0.40, 0.60]"] * 400))
    assert len(long) < 4000
    assert long.endswith("a head 0.50 [0.40, 0.60]. The figure's data has the rest.")


def test_ids_follow_the_content_and_never_repeat(world, monkeypatch):
    def ids():
        monkeypatch.setattr(render, "_rendered", Counter())
        one, other = charts.validity(world[0]), charts.validity(*world)
        shown = [one.html(), other.html(), one.html()]
        return [re.search(r'id="([^"]*)"', markup).group(1) for markup in shown]

    first = ids()
    assert len(set(first)) == 3
    assert first == ids(), "another build gives the same ids"


def test_a_notebook_gets_the_figure_and_its_words(world):
    chart = charts.validity(world[0])
    bundle = chart._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"] == chart.alternative
    words = Tags(bundle["text/html"]).text
    assert chart.alternative in words, "JupyterLab shows the alternative text"
    assert "Data: CSV, Parquet" in words


def test_specs_stay_small():
    generator = np.random.default_rng(0)
    heads = [f"ultrafeedback-instruction_following-{k}" for k in range(12)]
    run = make_run(
        generator.standard_normal((1200, 12)),
        heads=heads,
        subset=list(np.resize(["harmless-base", "helpful-base", "helpful-online"], 600)),
    )
    chart = charts.validity(stats.validity(run), stats.baselines(run))
    assert len(chart.html()) < 50_000


def test_the_bundle_carries_everything_and_defines_two_names():
    bundle = theme.vega_bundle()
    assert bundle.startswith("(function(){")
    themes = json.loads(bundle.rpartition("window.rewardThemes=")[2].removesuffix(";\n"))
    assert themes["light"] == theme.config()
    assert themes["dark"] == theme.config(dark=True)
    assert themes["narrow"] == theme.NARROW
    assert theme.VEGA_LITE in vl_convert.get_vegalite_versions()


# ---- In a browser ----

PAGE = """<!doctype html><html lang="en" data-theme="{mode}"><meta charset="utf-8">
<title>charts</title><meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="custom.css">
<style>html {{ --pst-color-background: #fff }}
html[data-theme=dark] {{ --pst-color-background: #121212 }}
body {{ margin: 16px; background: var(--pst-color-background) }}</style>
{scripts}<main class="bd-article">{figures}</main></html>"""


@pytest.fixture(scope="module")
def tab(chromium):
    """One tab for all pages, which has compiled what they share, and what was said in it."""
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.said = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    yield page
    context.close()


@pytest.fixture
def open_page(tab, tmp_path):
    def show(figures, width=1000, vega=True, mode="light"):
        for file in ("charts.js", "custom.css"):
            shutil.copy(STATIC / file, tmp_path)
        (tmp_path / "vega.js").write_text(theme.vega_bundle())
        scripts = '<script src="vega.js"></script>' if vega else ""
        scripts += '<script src="charts.js"></script>'
        (tmp_path / "page.html").write_text(
            PAGE.format(scripts=scripts, figures="".join(figures), mode=mode), encoding="utf-8"
        )
        tab.goto("about:blank")
        tab.mouse.move(0, 0)
        tab.emulate_media(media="screen")
        tab.set_viewport_size({"width": width, "height": 800})
        tab.said.clear()
        tab.goto((tmp_path / "page.html").as_uri())
        tab.wait_for_function(
            "[...document.querySelectorAll('.chart-view')]"
            ".every(e => ['drawn', 'failed'].includes(e.dataset.state))"
        )
        return tab

    return show


def figures_of_all(world):
    table = data_tables.lengths(validity_world())
    count = pd.DataFrame({"step": ["read"], "reason": [""], "items": [600]})
    return [charts.validity(*world), data_charts.lengths(table), data_charts.dropped(count)]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1000, 360])
def test_charts_are_drawn_without_a_network(open_page, world, width):
    figures = figures_of_all(world)
    page = open_page([chart.html() for chart in [*figures, figures[0]]], width)
    found = page.eval_on_selector_all(
        ".chart-view",
        "es => es.map(e => [e.dataset.state, e.querySelectorAll('svg path').length > 0,"
        " e.getAttribute('role'), e.getAttribute('aria-label')])",
    )
    assert found == [["drawn", True, "img", chart.alternative] for chart in [*figures, figures[0]]]
    assert page.said == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_hostile_names_never_run(open_page):
    page = open_page([hostile_chart().html()])
    page.select_option(".chart-controls select", index=1)
    page.hover(".touch_heads_marks path >> nth=1", force=True)
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert page.evaluate("window.hacked") is None
    assert page.said == []
    assert page.evaluate("document.querySelectorAll('img, main script script').length") == 0
    labels = page.eval_on_selector_all("select option", "es => es.map(e => e.textContent)")
    assert labels == ["all", *HOSTILE[:3]]
    # The view that was chosen is drawn in a task of its own.
    page.wait_for_function(
        "name => [...document.querySelectorAll('svg text')].some(e => e.textContent === name)",
        arg=HOSTILE[0],
    )


@pytest.mark.slow
def test_pointing_at_a_head_tells_what_the_table_says(open_page):
    table = table_of(
        head=["good", "broken"],
        win_rate=[0.7, np.nan],
        verdict=["strong", "undefined"],
        p_adjusted=[0.0001, np.nan],
        mde=[0.1, np.nan],
        note=["", "scores that are not numbers"],
    )
    drawn = charts.validity(table.assign(relation="claims this")).spec
    assert "head's name" in json.dumps(drawn)
    page = open_page([charts.validity(table).html()])
    told = []
    for row in range(2):
        page.hover(f".touch_heads_marks path >> nth={row}", force=True)
        page.wait_for_selector(f"#vg-tooltip-element.visible :text-is('{table['head'][row]}')")
        cells = page.eval_on_selector_all(
            "#vg-tooltip-element td.value", "es => es.map(e => e.textContent)"
        )
        told.append(cells)
    good = ["good", "strong", "0.700", "0.650 to 0.750", "100", "70", "0", "30", "below 0.001"]
    family = "all heads and subsets of this page (Holm)"
    assert told[0] == [*good, family, "±0.100"]
    assert told[1] == ["broken", "undefined", "–", "–", "100", "–", "0", "–", "–", family, "–"]


@pytest.mark.slow
def test_charts_follow_the_sites_mode_and_keep_the_readers_choice(open_page):
    page = open_page([hostile_chart().html()])
    page.select_option(".chart-controls select", index=2)
    label = ".chart-view svg text:text-is('chance') >> nth=-1"
    light = page.eval_on_selector(label, "e => e.getAttribute('fill')")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    dark = theme.VERDICTS["chance"].dark
    page.wait_for_selector(f".chart-view svg text[fill='{dark}']")
    assert light == theme.VERDICTS["chance"].light
    assert page.eval_on_selector(".chart-controls select", "e => e.selectedIndex") == 2
    assert page.locator(".chart-view svg").count() == 1
    assert page.said == []


@pytest.mark.slow
def test_a_dark_page_is_printed_light_and_whole(open_page):
    folded = markup.table(
        pd.DataFrame({f"column {k}": ["words of a cell"] * 20 for k in range(14)})
    )
    page = open_page([hostile_chart().html(), folded.markup])
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    label = ".chart-view svg text:text-is('chance') >> nth=-1"
    page.wait_for_selector(f".chart-view svg text[fill='{theme.VERDICTS['chance'].dark}']")
    # A browser prints when the event's own work is done: no task of its own may be waited for.
    shown, opened, drawn = page.evaluate(
        """async () => { dispatchEvent(new Event("beforeprint"));
        for (let k = 0; k < 10000; k++) await null;
        return [document.documentElement.dataset.theme, document.querySelector("details").open,
        document.querySelector(".chart-view").innerHTML] }"""
    )
    assert (shown, opened) == ("light", True)
    chance = theme.VERDICTS["chance"]
    assert chance.light in drawn and chance.dark not in drawn
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_selector(f".chart-view svg text[fill='{chance.dark}']")
    assert page.eval_on_selector(label, "e => e.getAttribute('fill')") == chance.dark
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert not page.eval_on_selector("details", "e => e.open")
    # A sheet of A4 between margins of 12 mm.
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})
    page.eval_on_selector("details", "e => (e.open = true)")
    right = page.eval_on_selector("table.result", "e => e.getBoundingClientRect().right")
    assert right <= 703
    assert page.said == []


@pytest.mark.slow
def test_charts_follow_the_width_of_their_place(open_page, world):
    page = open_page([charts.validity(*world).html()], 1000)
    for width in (800, 360, 700):
        page.set_viewport_size({"width": width, "height": 800})
        # Two lines a row on a phone, and drawn there in a task after the one that widens it.
        page.wait_for_function(
            f"""() => {{ const svg = document.querySelector('.chart-view svg');
            return Math.abs(svg.clientWidth - {width - 32}) <= 2
            && svg.clientHeight > 400 === {str(width == 360).lower()} }}"""
        )


@pytest.mark.slow
def test_a_drawing_that_followed_the_page_is_as_one_that_was_drawn_there(open_page, world):
    figures = [chart.html() for chart in (*figures_of_all(world), hostile_chart())]

    def drawn(page):
        page.evaluate("new Promise(d => requestAnimationFrame(() => requestAnimationFrame(d)))")
        drawings = page.eval_on_selector_all(".chart-view svg", "es => es.map(e => e.outerHTML)")
        # A tick that came later stands behind those that stayed; clips are numbered.
        parts = [re.sub(r"clip[0-9]+", "clip", each).replace("><", ">\n<") for each in drawings]
        return [sorted(each.splitlines()) for each in parts]

    page = open_page(figures)
    looks = [("dark", 1000), ("dark", 360), ("light", 360), ("light", 800)]
    followed = []
    for mode, width in looks:
        page.evaluate("mode => document.documentElement.dataset.theme = mode", mode)
        page.set_viewport_size({"width": width, "height": 800})
        followed.append(drawn(page))
    assert page.said == []
    anew = [drawn(open_page(figures, width, mode=mode)) for mode, width in looks]
    assert followed == anew
    assert len({str(drawings) for drawings in anew}) == len(looks)


@pytest.mark.slow
def test_a_chart_that_fails_says_so(open_page, world):
    chart = charts.validity(*world)
    chart.spec["layer"][0]["encoding"]["x"]["scale"]["type"] = "nonsense"
    chart.spec["transform"] = [{"filter": "not an ( expression"}]
    page = open_page(
        [
            chart.html(),
            data_charts.dropped(
                pd.DataFrame({"step": ["read"], "reason": [""], "items": [600]})
            ).html(),
        ]
    )
    states = page.eval_on_selector_all(".chart-view", "es => es.map(e => e.dataset.state)")
    assert states == ["failed", "drawn"]
    text = page.inner_text(".chart-view >> nth=0")
    assert "could not be drawn" in text
    assert "follows 0.71" in text, "its words stand in for it"


@pytest.mark.slow
def test_without_its_libraries_the_site_says_so(open_page, world):
    page = open_page([charts.validity(*world).html()], vega=False)
    assert "vega.js is missing" in page.inner_text(".chart-failure")


def test_the_forest_says_in_words_and_on_touch_which_head_is_length():
    table = table_of(head=["a", "b"], win_rate=[0.8, 0.7], verdict=["strong", "tracks"])
    chart = charts.validity(table.assign(length=["as the longer response", ""]))
    first, second = chart.alternative.split("; ")
    assert first.endswith("(as the longer response)") and "(" not in second
    assert "beside length" in json.dumps(chart.spec)


# ---- Many heads, many subsets ----


def many(heads: int, subsets: int) -> pd.DataFrame:
    parts = {"all": 9999} | {f"s{k}": 10 + k for k in range(subsets)}
    names = [f"h{k}" for k in range(heads)]
    rate = np.linspace(0.9, 0.2, heads)
    return pd.concat(
        [
            table_of(head=names, subset=part, n=n, win_rate=pd.Series(rate), verdict="tracks")
            for part, n in parts.items()
        ],
        ignore_index=True,
    )


def test_many_heads_come_in_pages_of_one_height():
    table = many(100, 2)
    chart = charts.validity(table)
    rows = drawn(chart)
    overall = rows[rows["subset"] == 0]
    assert overall["page"].tolist() == [0] * 40 + [1] * 40 + [2] * 20
    assert overall["row"].tolist() == [*range(40), *range(40), *range(20)]
    turned = [p["bind"]["labels"] for p in chart.spec["params"] if p["name"] == "page"]
    assert turned == [["1 to 40", "41 to 80", "81 to 100"]]
    assert chart.spec["height"] < 1300 and len(rows) == len(table)
    assert "page" not in drawn(charts.validity(many(60, 2)))


def test_of_too_many_subsets_the_largest_are_drawn_and_the_caption_says_so():
    chart = charts.validity(many(500, 30))
    (labels,) = [p["bind"]["labels"] for p in chart.spec["params"] if p["name"] == "subset"]
    assert labels == ["all", *(f"s{k}" for k in range(23, 30))]
    assert "Of 31 subsets those 8 with most comparisons are drawn." in chart.caption
    assert len(drawn(chart)) == 4000 == len(chart.data)
    assert len(chart.html()) < 700_000


def test_long_data_are_a_compressed_link():
    table = many(100, 39)
    link = re.search(
        r'download="(\S+)" href="data:application/gzip;base64,([^"]*)"',
        charts.validity(table).html(),
    )
    assert link.group(1) == "validity.csv.gz"
    rows = pd.read_csv(io.BytesIO(gzip.decompress(base64.b64decode(link.group(2)))))
    assert rows["head"].tolist() == table["head"].tolist()
    assert rows["win_rate"].to_numpy() == pytest.approx(table["win_rate"])


def test_many_intervals_come_in_pages():
    from lib.charts.intervals import intervals

    rows = pd.DataFrame({"name": [f"r{k}" for k in range(61)], "group": "all", "note": ""})
    rows = rows.assign(value=0.5, low=0.4, high=0.6)
    given = {"title": "t", "reference": 0.5, "data": rows, "name": "n", "caption": "", "what": "w"}
    spec = intervals(rows, **given).spec
    (text,) = [t for t in spec["datasets"].values() if str(t).startswith("row,")]
    data = pd.read_csv(io.StringIO(text))
    assert data["page"].tolist() == [0] * 40 + [1] * 21 and data["row"].max() == 39
    assert spec["height"] == intervals(rows.head(40), **given).spec["height"]
