"""Two comparisons of our own stimuli, their tokens marked by what the reward reads from each.

Only texts that were written for this project are shown. A mark says the same twice: its line
is solid where a token raises the reward and dotted where it lowers it, its colour follows, and
its width has three steps. The number of a marked token is shown under the pointer and where the
keyboard is; the ten largest stand in a table, with all that makes the reward.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from lib import markup
from lib.data import load_items
from lib.effects import heads
from lib.errors import AuditError
from lib.markup import Html, escape

OURS = "stimuli/"
STEPS = (1 / 3, 1 / 10, 1 / 30)  # of the largest part of a token before the last
LARGEST = 10
BREAK = "⏎"
KEY = (
    "Solid lines raise the reward, dotted ones lower it; the thickest mark at least a third of the "
    "largest part that a token before the last has, then a tenth, then a thirtieth. Of the last "
    "token, where the reward is read, the table says more."
)


def shown(page, count: int = 2, head: str = "") -> Html:
    """Examples of a page's dataset, where its texts are ours to show; else a sentence why not.

    ``page`` is a ``lib.report.Page`` that declares a model, a dataset and effects; of its heads
    the first is read, or the one that is named.
    """
    name = page.parameters["dataset"]
    if not name.startswith(OURS):
        return Html(
            f"<p>The texts of {escape(name)} aren't shown here. Pages of this project's own "
            "stimuli have examples.</p>"
        )
    head = head or heads(page.effects)[0]
    items = load_items(name, limit=count, seed=page.parameters.get("seed", 0))
    try:
        found = [_parts(page.model, items, place, head) for place in range(count)]
    except AuditError as error:
        return Html(f"<p>No example is shown: {escape(error)}</p>")
    examples = "".join(example(label, sides).markup for label, sides in found)
    head = escape(head)
    return Html(
        f'<div class="tokens mathjax_ignore"><p class="tokens-key">What the reward of <em>{head}'
        f"</em> reads from each token. {escape(KEY)}</p>{examples}</div>"
    )


def _parts(model, items, place: int, head: str) -> tuple[str, dict[str, xr.Dataset]]:
    """The first comparison of an item, and of both its responses what each token adds."""
    from lib.mechanisms.tokens import token_parts  # imports torch

    item = items.prompts.iloc[place]
    row = items.comparisons[items.comparisons["item"] == item["item"]].iloc[0]
    sides = {
        side: token_parts(model, item["prompt"], items.responses["text"][row[side]]).sel(head=head)
        for side in ("better", "worse")
    }
    return f"{row['item']} ({row['criterion']})", sides


def example(label: str, sides: Mapping[str, xr.Dataset]) -> Html:
    """A comparison: each response's tokens, marked, and the table of the largest.

    ``sides`` has of each response what ``lib.mechanisms.tokens.token_parts`` gives for a head.
    """
    largest = max(float(np.abs(side["part"].values[:-1]).max(initial=0)) for side in sides.values())
    texts = "".join(
        f"<dt>{escape(name)}: reward {float(side['score']):+.3f}</dt>"
        f'<dd dir="auto">{_marked(side, largest)}</dd>'
        for name, side in sides.items()
    )
    rows = markup.table(table(sides), {"part": "+.4f"}, compact=True).markup
    return Html(f"<details open><summary>{escape(label)}</summary><dl>{texts}</dl>{rows}</details>")


def _marked(side: xr.Dataset, largest: float) -> str:
    spans = []
    for text, place, part in zip(
        side["text"].values, side["place"].values, side["part"].values, strict=True
    ):
        step = sum(largest > 0 and abs(part) >= share * largest for share in STEPS)
        way = "up" if part > 0 else "down"
        mark = f' token-{way} token-{step}" data-part="{part:+.4f}" tabindex="0' if step else ""
        shown = escape(_broken(str(text)))
        spans.append(f'<span class="token token-{escape(place)}{mark}">{shown}</span>')
    return "".join(spans)


def _broken(text: str) -> str:
    return text.replace("\n", f"{BREAK}\n")


def table(sides: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Of each response the ten largest parts, then all others, the constant and the reward.

    Returns
    -------
    pandas.DataFrame
        ``response``, ``token``, ``place`` (``prompt`` or ``response``), ``number`` (of the
        token, from 1; none for sums), ``part`` and ``note``.
    """
    rows = []
    for name, side in sides.items():
        part = side["part"].values
        order = np.argsort(-np.abs(part), kind="stable")
        for t in order[:LARGEST]:
            own = {"response": name, "token": _broken(str(side["text"].values[t]))}
            own |= {"place": str(side["place"].values[t]), "number": str(t + 1), "part": part[t]}
            rows.append(own | {"note": _own(side) if t == len(part) - 1 else ""})
        rest = {"response": name, "place": "", "number": "", "note": ""}
        left = order[LARGEST:]
        rows += [
            rest | {"token": f"all {len(left)} others", "part": part[left].sum()},
            rest | {"token": "constant", "part": float(side["constant"])},
            rest | {"token": "the reward", "part": float(side["score"])},
        ]
    return pd.DataFrame(rows, columns=["response", "token", "place", "number", "part", "note"])


def _own(side: xr.Dataset) -> str:
    parts = zip(side["what"].values, side["own"].values, strict=True)
    return "the last: " + ", ".join(f"{what} {value:+.3f}" for what, value in parts)
