"""``report.html``: what is known of a model as one file, which asks for no other.

Style, drawings and data lie within it; it has no script, and says to the browser that it may load
nothing. Its sentences, charts and tables are made by the functions that make the book's pages.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from lib import charts, markup, paths, stats, summary, words
from lib.analyses.check import charts as check_charts
from lib.analyses.check import words as check_words
from lib.analyses.exploits import charts as surface_charts
from lib.analyses.exploits import words as surface_words
from lib.analyses.validity import words as validity_words
from lib.audits import document
from lib.audits.figures import Inks, figure
from lib.audits.measure import Audited
from lib.charts.heatmap import preferences
from lib.charts.render import ROWS, Chart
from lib.check.lines import warning
from lib.data.asks import whole
from lib.markup import Html, escape
from lib.stats import winrates
from lib.summary.compare import charts as compare_charts
from lib.summary.compare import words as compare_words
from lib.summary.scorecard import charts as card_charts
from lib.summary.scorecard import words as card_words

LARGEST = 3_000_000  # bytes of the page
MOST = 200  # rows of a table
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
STYLE = paths.BOOK / "_static" / "custom.css"
RATES = ("win_rate", "low", "high")
VALIDITY = ("head", "subset", "relation", "n", "prompts", "ties", *RATES, "p_adjusted", "verdict")
VALIDITY += ("mde", "length")
SCORES = ("dataset", "model", "rule", "n", *RATES, "longer", "note")
NO_OTHER = (
    "No other model was scored on these datasets, so there is nothing to compare this one with; "
    "name one: --against MODEL."
)
NO_CHECK = "The model itself isn't at hand, so whether its scores are right wasn't checked."
NO_EXPLOITS = "No surface was tried: there is no run of stimuli/exploits."
FEWER = "Of {} heads a figure shows those that win most."
SCRIPTS = re.compile(r"<script\b[^>]*>.*?</script>", re.DOTALL)


class _Page:
    """Parts of a page in order; figures are numbered, and share their colours."""

    def __init__(self):
        self.inks, self.parts, self.figures = Inks(), [], 0

    def add(self, *parts: str | Html | Chart) -> None:
        """Text as markup, and what pages show as they show it, without its scripts."""
        for part in parts:
            if isinstance(part, Chart):
                self.figures += 1
                part = figure(part, self.inks, self.figures)
            elif isinstance(part, Html):
                part = SCRIPTS.sub("", part.markup)
            self.parts.append(part)

    def head(self, name: str, title: str, level: int = 2) -> None:
        self.parts.append(f'<h{level} id="{name}">{escape(title)}</h{level}>')


def page(audited: Audited, content: Mapping[str, Any]) -> str:
    """The page, with ``audit.json`` within.

    Parameters
    ----------
    audited
        What is known of the model.
    content
        Of ``audit.json``.
    """
    made = _Page()
    left = audited.left
    cells = summary.matrix(left).assign(page="")  # links would leave the file
    card = summary.scorecard(left)
    made.add(
        f"<header><h1>{escape(left.model)}</h1><p>An audit of a reward model: is its score "
        "right, what does each of its heads go with, which surfaces does it pay for, and how does "
        f"it stand beside others? On {words.count(len(left.datasets), 'dataset')}.</p></header>"
    )
    if audited.unsound:
        made.add(f'<p class="mismatch">{escape(warning(left.model, audited.unsound))}</p>')
    sections = (
        ("check", "Check", lambda: _check(made, audited)),
        ("scorecard", "Scorecard", lambda: _scorecard(made, left, cells, card)),
        ("exploits", "Exploits", lambda: _exploits(made, left)),
        ("validity", "Validity", lambda: _validity(made, left)),
        ("comparison", "Beside other models", lambda: _comparison(made, audited)),
        ("made", "How this was made", lambda: _made(made, content)),
    )
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title, _ in sections)
    made.add(f"<nav>{links}</nav>")
    for name, title, tell in sections:
        made.head(name, title)
        tell()
    return _whole(left.model, made)


def _check(made: _Page, audited: Audited) -> None:
    checked = audited.checked
    if checked is None:
        made.add(markup.said([NO_CHECK]))
        return
    made.add(markup.takeaways(check_words.takeaways(checked)), check_charts.lines(checked))
    for name, chart in (("shifts", check_charts.shifts), ("costs", check_charts.costs)):
        if len(table := checked.frame(name)):
            made.add(chart(table))


def _scorecard(made: _Page, left, cells: pd.DataFrame, card: pd.DataFrame) -> None:
    uses = summary.uses(cells, card).assign(page="")
    lengths = summary.longer(left).assign(page="")
    found = card_words.takeaways(card, cells, summary.entanglement(left), summary.sides(left))
    made.add(
        markup.takeaways([card_words.uses(uses), *found, *card_words.longer(card, lengths)]),
        card_charts.uses(uses),
        card_charts.matrix(cells, lengths),
        _unlinked(card_charts.listing(cells, "", lengths)),
    )


def _unlinked(listing: Html) -> Html:
    return Html(listing.markup.replace("with intervals and links", "with intervals"))


def _exploits(made: _Page, left) -> None:
    found = dict(left.each("exploits"))
    if not found:
        made.add(markup.said([NO_EXPLOITS]))
    for dataset, table in found.items():
        beside = left.read("exploits_baselines", dataset)
        dose = left.read("exploits_dose", dataset)
        own = table[table["head"] == table["head"].iloc[-1]]
        made.add(
            markup.takeaways(surface_words.takeaways(table, beside, dose)),
            surface_charts.exploits(own, beside),
        )
        if table["head"].nunique() > 1:
            made.add(surface_charts.rules(table))
        made.add(
            *_table(
                table,
                dict.fromkeys(["win_rate", "low", "high", "mde"], ".2f")
                | dict.fromkeys(["shift", "shift_low", "shift_high"], "+.2f")
                | dict.fromkeys(["p", "p_adjusted"], ".2g"),
            )
        )


def _validity(made: _Page, left) -> None:
    for number, (dataset, table) in enumerate(left.each("validity")):
        baselines = left.read("baselines", dataset)
        made.head(f"validity-{number}", dataset, 3)
        if whole(dataset):
            chart = charts.validity(table, baselines)
        else:  # a mean over criteria answers no question
            parts = table[table["subset"] != winrates.ALL]
            chart = preferences(parts, "subset", "preferred response", "criteria")
        heads = table["head"].nunique()
        paged = [f'<p class="table-data">{FEWER.format(heads)}</p>'] if heads > ROWS else []
        made.add(
            markup.said(_sentences(left, dataset, table, baselines)),
            chart,
            *paged,
            *_table(
                stats.distinct(table).assign(ties=winrates.tied).reindex(columns=list(VALIDITY)),
                dict.fromkeys([*RATES, "mde"], ".3f") | {"ties": ".1%", "p_adjusted": ".2g"},
            ),
        )


def _table(rows: pd.DataFrame, formats: Mapping[str, str]) -> list[str | Html]:
    """A table of as many rows as a page takes, and a word on the others."""
    shown = markup.table(rows.head(MOST), formats)
    if len(rows) <= MOST:
        return [shown]
    left = f"The first {MOST} of {len(rows)} rows; audit.json has the verdict of each."
    return [shown, f'<p class="table-data">{left}</p>']


def _sentences(left, dataset: str, table: pd.DataFrame, baselines: pd.DataFrame) -> list[str]:
    """As the validity page says them; what its run was is known from its sample."""
    sample = left.read("sample", dataset)
    items = 0 if sample is None or sample.empty else int(sample["items"].iloc[0])
    run = xr.Dataset(coords={"item": np.arange(items)}, attrs={"dropped": {}})
    return [*validity_words.takeaways(table, baselines, run), *validity_words.ties(table)]


def _comparison(made: _Page, audited: Audited) -> None:
    if audited.differences.empty:
        made.add(markup.said([NO_OTHER]))
        return
    scores, pairs = audited.scores, audited.differences
    rates = ["rate", "other_rate", "difference", "low", "high", "mde", "disagree"]
    made.add(
        markup.takeaways([*compare_words.takeaways(scores, pairs), *compare_words.longer(scores)]),
        compare_charts.scores(scores),
        markup.table(
            scores[list(SCORES)], dict.fromkeys(["win_rate", "low", "high", "longer"], ".3f")
        ),
    )
    for number, ((model, other), own) in enumerate(pairs.groupby(["model", "other"], sort=False)):
        made.head(f"pair-{number}", f"{model} and {other}", 3)
        made.add(compare_charts.differences(own.reset_index(drop=True)))
    made.add(
        markup.table(
            pairs,
            dict.fromkeys(rates, ".3f")
            | dict.fromkeys(["p", "p_adjusted"], ".2g")
            | dict.fromkeys(["prompts", "n_model", "n_other"], ".0f"),
        ),
    )


def _made(made: _Page, content: Mapping[str, Any]) -> None:
    (model,) = content["models"]
    text = document.text(content)
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    rows = {
        "Model": _pairs(model["fingerprint"]) or "not known",
        "Made with": _pairs(content["made_with"]),
    }
    for dataset in model["datasets"]:
        dropped = _pairs({reason: n for reason, n in dataset["dropped"].items()})
        told = [
            dataset["how"],
            f"fingerprint {dataset['items']}" if dataset["items"] else "",
            words.count(dataset["outcomes"]["n"], "comparison"),
            _pairs(dataset["options"]),
            f"left out: {dropped}" if dropped else "",
            f"missing: {', '.join(dataset['missing'])}" if dataset["missing"] else "",
        ]
        rows[dataset["name"]] = "; ".join(filter(None, told))
    body = "".join(f"<dt>{escape(key)}</dt><dd>{escape(text)}</dd>" for key, text in rows.items())
    made.add(f'<dl class="made">{body}</dl>')
    size = sum(map(len, made.parts)) + len(packed)
    if size > LARGEST - 200_000:  # style and colours are to come
        made.add("<p>All verdicts and numbers are in the audit.json that was written beside.</p>")
        return
    link = f'href="data:application/gzip;base64,{packed}"'
    made.add(
        "<p>All verdicts and numbers, and who won each comparison, are in "
        f'<a class="data-link" download="audit.json.gz" {link}>audit.json</a>, compressed.</p>'
    )


def _pairs(mapping: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in mapping.items())


def _whole(model: str, made: _Page) -> str:
    style = f"{_book_style()}\n{paths.LIB.joinpath('audits/report.css').read_text()}"
    title = escape(f"Audit of {model}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}\n{made.inks.style()}</style></head>\n"
        f'<body><main class="bd-article">{"".join(made.parts)}</main></body></html>\n'
    )


def _book_style() -> str:
    """The book's own style, whose dark colours follow the reader's setting."""
    style = STYLE.read_text(encoding="utf-8")
    style = style.replace('html:not([data-theme="dark"]) {', ":root {")
    dark = re.search(r'^html\[data-theme="dark"\] \{.*?^\}', style, re.DOTALL | re.MULTILINE)
    own = dark[0].replace('html[data-theme="dark"]', ":root")
    on_screen = f"@media screen and (prefers-color-scheme: dark) {{\n{own}\n}}"
    return style.replace(dark[0], on_screen)
