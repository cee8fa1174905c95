"""The matrix repeats its table, leads to pages from anywhere, and reads on a phone."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from lib.charts import theme
from lib.data.concepts import CLAIMED, OPPOSED, OTHER
from lib.errors import DataError
from lib.summary.scorecard import charts

SCRIPT = "<script>window.hacked=1</script>"


def cells(*rows, page="book/results/m/{}/validity.html") -> pd.DataFrame:
    """Rows of ``lib.summary.matrix``: head, dataset, win rate, verdict, and maybe subset."""
    made = []
    for head, dataset, rate, verdict, *subset in rows:
        known = verdict != "not run"
        made.append(
            {
                "head": head,
                "dataset": dataset,
                "subset": subset[0] if subset else "all",
                "n": 1234 if known else 0,
                "prompts": 1200 if known else 0,
                "win_rate": rate,
                "low": rate - 0.05,
                "high": rate + 0.05,
                "p_adjusted": 0.0004 if known else np.nan,
                "mde": 0.08 if known else np.nan,
                "verdict": verdict,
                "note": "",
                "page": page.format(dataset),
            }
        )
    return pd.DataFrame(made)


TWO = cells(
    ("a", "hh-rlhf/helpful-base", 0.71, "strong"),
    ("b", "hh-rlhf/helpful-base", 0.5, "chance"),
    ("a", "xstest", 0.34, "inverted"),
    ("b", "xstest", np.nan, "not run"),
)


def drawn(chart) -> pd.DataFrame:
    (text,) = chart.spec["datasets"].values()
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


def words(svg: str) -> list[str]:
    return [
        "".join(text.itertext())
        for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def colours(svg: str) -> set[str]:
    return {e.get("fill") for e in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")}


def test_a_cell_holds_what_its_row_says():
    found = drawn(charts.matrix(TWO))
    assert found["rate"].tolist()[:3] == [0.71, 0.5, 0.34]
    assert found["verdict"].tolist() == TWO["verdict"].tolist()
    assert found[["row", "column"]].values.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    for column, told in (("n", 1234), ("low", 0.66), ("high", 0.76), ("p", 0.0004), ("mde", 0.08)):
        assert found[column].iloc[0] == pytest.approx(told)


@pytest.mark.parametrize("dark", [False, True])
def test_a_cell_shows_its_mark_and_number_on_its_verdicts_colour(dark):
    svg = charts.matrix(TWO).svg(dark=dark)
    assert {"▲ .71", "■ .50", "▼ .34", "–"} <= set(words(svg))
    for verdict in ("strong", "chance", "inverted"):
        mark = theme.VERDICTS[verdict]
        assert (mark.dark if dark else mark.light) in colours(svg)


def test_a_phone_gets_short_names_and_marks_above_numbers():
    wide, narrow = (words(charts.matrix(TWO).svg(width=width)) for width in (720, 360))
    assert any(word.startswith("hh-rlhf/helpful-base") for word in wide)
    assert any(word.startswith("helpful-base") for word in narrow)
    assert not any(word.startswith("hh-rlhf") for word in narrow)
    assert {"▲.71", "▼.34"} <= set(narrow), "two lines of one text"


def test_a_name_is_shortened_only_where_it_stays_its_own():
    both = cells(("a", "x/one", 0.7, "strong"), ("a", "y/one", 0.7, "strong"))
    assert set(drawn(charts.matrix(both))["short"]) == {"x/one", "y/one"}


def test_many_columns_keep_their_marks_on_a_phone():
    wide = cells(*(("a", f"set-{k}", 0.7, "strong") for k in range(charts.FULL + 1)))
    narrow = words(charts.matrix(wide).svg(width=360))
    assert narrow.count("▲") == charts.FULL + 1
    assert not any(".70" in word for word in narrow)
    assert words(charts.matrix(wide).svg()).count("▲.70") == charts.FULL + 1


def test_a_menu_shows_the_subsets_of_a_dataset_that_has_several():
    table = pd.concat(
        [
            TWO,
            cells(
                ("a", "xstest", 0.2, "inverted", "one"),
                ("a", "xstest", 0.5, "inconclusive", "two"),
            ),
        ]
    )
    chart = charts.matrix(table)
    (menu,) = [p for p in chart.spec["params"] if p["name"] == "part"]
    assert menu["bind"]["labels"] == ["whole datasets", "xstest by subset"]
    found = drawn(chart)
    part = found[found["part"] == 1]
    assert list(dict.fromkeys(part["across"])) == ["all", "one", "two"]
    (fixed,) = [p for p in charts.matrix(TWO).spec["params"] if p["name"] == "part"]
    assert "bind" not in fixed


def test_a_dataset_without_a_whole_is_in_the_menu_alone():
    tone = cells(("a", "stimuli/controlled", 0.8, "strong", "tone"))
    chart = charts.matrix(pd.concat([TWO, tone]))
    (menu,) = [p for p in chart.spec["params"] if p["name"] == "part"]
    assert menu["bind"]["labels"] == ["whole datasets", "stimuli/controlled by subset"]
    assert "stimuli" not in chart.alternative
    assert set(drawn(chart).query("part == 0")["protocol"]) == set(TWO["dataset"])
    alone = charts.matrix(tone)
    assert alone.alternative.startswith("Verdicts of 1 head on 0 protocols. By criterion only")
    assert "No dataset was judged" in charts.listing(tone).markup


def test_a_cell_leads_to_its_page_from_the_sites_root():
    chart = charts.matrix(TWO)
    assert drawn(chart)["page"].iloc[0] == "book/results/m/hh-rlhf/helpful-base/validity.html"
    assert {"name": "root", "value": ""} in chart.spec["params"], "which charts.js sets"
    links = re.findall(r'href="[^"]*?(book/results/[^"]*)"', chart.svg())
    assert set(links) == set(TWO["page"]) and len(links) == 4


def test_words_say_what_the_picture_shows():
    assert charts.matrix(TWO).alternative == (
        "Verdicts of 2 heads on 2 protocols. a: strong on hh-rlhf/helpful-base; against "
        "these labels on xstest. b: chance on hh-rlhf/helpful-base; not run on xstest. The scorecard has the same "
        "as a table with links."
    )


@pytest.mark.parametrize("dark", [False, True])
def test_only_labels_that_ask_what_a_name_claims_colour_a_cell(dark):
    """The same verdict on labels that ask something else, or the opposite, has no colour."""
    mark = theme.VERDICTS["inverted"]
    for relation, coloured in ((CLAIMED, True), (OTHER, False), (OPPOSED, False)):
        table = cells(("refusal", "xstest", 0.0, "inverted")).assign(relation=relation)
        svg = charts.matrix(table).svg(dark=dark)
        assert ((mark.dark if dark else mark.light) in colours(svg)) == coloured
        shown = f"{charts.OPPOSITE} .00" if relation == OPPOSED else "▼ .00"
        assert shown in words(svg)


def test_the_heads_whose_names_are_asked_come_first_with_their_own_criteria():
    table = pd.concat(
        [
            cells(("x", "xstest", 0.1, "inverted"), ("verbosity", "xstest", 0.5, "chance")).assign(
                relation=OTHER
            ),
            *(
                cells((head, "stimuli/controlled", rate, "strong", subset)).assign(
                    relation=CLAIMED if head == subset else OTHER
                )
                for head, rate in (("x", 0.9), ("verbosity", 0.8))
                for subset in ("verbosity", "safety")
            ),
        ]
    )
    found = drawn(charts.matrix(table))
    first = found[found["part"] == 0]
    own = first[first["protocol"] == "stimuli/controlled"]
    assert own[["name", "subset", "rate", "row"]].values.tolist() == [
        ["verbosity", "verbosity", 0.8, 0]
    ]
    assert set(own["lines"]) == {f"{charts.OWN}; 1,234 comparisons each, 1,200 prompts"}
    listed = str(charts.listing(table)._repr_html_())
    assert listed.index("verbosity</bdi>") < listed.index("x</bdi>")
    assert charts.OWN in listed and "muted" in listed


def test_a_label_carries_the_part_and_a_cell_its_training():
    table = cells(("a", "reward-bench-2", 0.94, "strong")).assign(
        relation=CLAIMED,
        trained=True,
        part="Safety only",
        lacks="Math, Ties",
        counted="288 comparisons, 96 prompts",
    )
    found = words(charts.matrix(table).svg())
    assert "reward-bench-2Safety only288 comparisons, 96 prompts" in found
    assert f"▲ .94{charts.TRAINED}" in found
    listed = str(charts.listing(table)._repr_html_())
    assert "Safety only; 288 comparisons, 96 prompts; lacks Math, Ties" in listed
    assert f".94{charts.TRAINED}".removeprefix(".") in listed


def test_a_model_that_was_never_audited_has_a_figure_that_says_so():
    chart = charts.matrix(TWO.iloc[:0])
    assert "No validity page was executed" in chart.alternative
    with pytest.raises(DataError, match="column 'page'"):
        charts.matrix(TWO.drop(columns="page"))


class Links(HTMLParser):
    def __init__(self, markup: str):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "a":
            self.links.append(dict(attrs))

    def handle_data(self, data):
        self.text += data


def test_the_listing_links_every_verdict_relative_to_its_page():
    found = Links(charts.listing(TWO, "book/results/m").markup)
    assert [link["href"] for link in found.links] == [
        *("hh-rlhf/helpful-base/validity.html", "xstest/validity.html") * 2
    ]
    assert found.links[1]["data-page"] == "book/results/m/xstest/validity.html"
    assert "0.71strong[0.66, 0.76]" in found.text and "not run" in found.text


def test_a_verdict_without_a_page_is_no_link():
    assert not Links(charts.listing(cells(("a", "xstest", 0.7, "strong"), page="")).markup).links


def test_hostile_names_stay_text():
    hostile = cells((SCRIPT, f"{SCRIPT}/\u202ex", 0.7, "strong"), page="")
    markup = charts.matrix(hostile).html()
    assert markup.count("<script") == 1
    assert SCRIPT not in markup
    listing = Links(charts.listing(hostile).markup)
    assert "script" not in listing.tags
    assert SCRIPT in listing.text and "\u202e" not in listing.text


def test_the_spec_of_twenty_heads_stays_small():
    rows = [
        (f"ultrafeedback-instruction_following-{h}", f"set-{d}/part-{d}", 0.51234, "inconclusive")
        for d in range(10)
        for h in range(20)
    ]
    assert len(re.sub(r'href="data:[^"]*"', "", charts.matrix(cells(*rows)).html())) < 60_000


# ---- The longer response ----


def lengths(*rows) -> pd.DataFrame:
    """Rows of ``lib.summary.longer``: dataset, win rate, and maybe subset."""
    made = [
        {
            "dataset": dataset,
            "subset": subset[0] if subset else "all",
            "n": 1234,
            "win_rate": rate,
            "low": rate - 0.05,
            "high": rate + 0.05,
            "note": "",
            "page": f"book/results/m/{dataset}/validity.html",
        }
        for dataset, rate, *subset in rows
    ]
    return pd.DataFrame(made)


BOTH = lengths(("hh-rlhf/helpful-base", 0.61), ("xstest", 0.37))


def below(svg: str, number: str) -> float:
    """How far down a text stands."""
    return float(re.search(rf"translate\([\d.]+,([\d.]+)\)[^>]*>{re.escape(number)}<", svg)[1])


@pytest.mark.parametrize("width", [720, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_length_is_the_last_row_without_mark_or_verdict(width, dark):
    svg = charts.matrix(TWO, BOTH).svg(width, dark)
    assert {".61", ".37", "longer response"} <= set(words(svg))
    heads = charts.matrix(TWO).svg(width, dark)
    assert below(svg, "longer response") > max(below(heads, "a"), below(heads, "b"))
    assert below(svg, ".61") == below(svg, ".37") > below(svg, "longer response") - 1
    assert colours(svg) == colours(heads), "no colour is added"


def test_length_is_no_head_and_counts_for_none():
    chart = charts.matrix(TWO, BOTH)
    assert chart.alternative.startswith("Verdicts of 2 heads on 2 protocols. a: strong")
    assert (
        "For comparison, the longer response wins 0.61 on hh-rlhf/helpful-base, 0.37 on xstest."
        in chart.alternative
    )
    assert chart.data["verdict"].tolist()[-2:] == ["baseline"] * 2
    assert drawn(chart).query("verdict == 'baseline'")[["row", "column"]].values.tolist() == [
        *([2, 0], [2, 1])
    ]


def test_a_head_of_that_name_stays_a_head():
    both = cells(("longer response", "xstest", 0.7, "strong"))
    found = drawn(charts.matrix(both, BOTH))
    assert found[["row", "verdict", "rate"]].values.tolist() == [
        *([0, "strong", 0.7], [1, "baseline", 0.37])
    ]


def test_length_that_no_page_told_is_a_dash_under_its_name():
    svg = charts.matrix(TWO, BOTH.tail(1)).svg()
    assert words(svg).count("–") == 2, "of length on helpful-base, and of b on xstest"
    assert words(svg).count("longer response") == 1
    assert charts.matrix(TWO, BOTH.head(0)).spec == charts.matrix(TWO).spec


def test_length_follows_the_menu():
    parts = cells(("a", "xstest", 0.2, "inverted", "one"), ("a", "xstest", 0.5, "chance", "two"))
    told = pd.concat([BOTH, lengths(("xstest", 0.3, "one"), ("xstest", 0.9, "two"))])
    found = drawn(charts.matrix(pd.concat([TWO, parts]), told)).query("verdict == 'baseline'")
    assert found[found["part"] == 1]["rate"].tolist() == [0.37, 0.3, 0.9]
    assert found[found["part"] == 0]["rate"].tolist() == [0.61, 0.37]


def test_length_leads_to_its_page_too():
    links = re.findall(r'href="[^"]*?(book/results/[^"]*)"', charts.matrix(TWO, BOTH).svg())
    assert len(links) == 6


def test_many_columns_on_a_phone_show_which_way_length_goes():
    names = [f"set-{k}" for k in range(charts.FULL + 1)]
    wide = cells(*(("a", name, 0.7, "strong") for name in names))
    rates = lengths(*((name, 0.4 if k else 0.6) for k, name in enumerate(names)))
    narrow = words(charts.matrix(wide, rates).svg(width=360))
    assert (narrow.count("↑"), narrow.count("↓")) == (1, charts.FULL)


def test_the_listing_ends_with_length():
    markup = charts.listing(TWO, "book/results/m", BOTH.head(1)).markup
    body, foot = markup.split("<tfoot>")
    assert "longer response" in foot and "longer" not in body
    found = Links(foot)
    assert found.links[0]["href"] == "hh-rlhf/helpful-base/validity.html"
    assert found.text == "longer response0.61[0.56, 0.66]–" and "verdict" not in foot
    assert "tfoot" not in charts.listing(TWO).markup


def test_another_table_of_length_is_an_error():
    with pytest.raises(DataError, match="column 'page'"):
        charts.matrix(TWO, BOTH.drop(columns="page"))
