"""Tables are shown whole, values for other pages are text, and sentences follow the figures."""

import copy

import pandas as pd
import pytest

from lib.errors import DataError
from lib.summary.published import claims, stats, words


def tables(figures):
    names, rates = stats.head_names(figures), stats.rates(figures)
    table = claims.claims(figures)
    return table, names, rates, stats.geometry_bounds(figures), stats.overlaps(figures)


@pytest.fixture(scope="module")
def made(figures):
    return tables(figures)


def test_every_row_of_the_table_is_shown_once(made):
    table = made[0]
    groups = dict.fromkeys(zip(table["system"], table["part"], strict=True))
    shown = [words.of(table, *group) for group in groups]
    assert sum(map(len, shown)) == len(table)
    with pytest.raises(DataError, match="Did you mean 'reward-lens: '"):
        words.of(table, "reward-lense")


def test_no_p_is_shown_as_nothing(made):
    shown = words.rated(made[2])
    assert words.p_text(0.0) == words.p_text(1e-13) == "< 1e-12" and words.p_text(0.271) == "0.27"
    assert list(shown["p"][made[2]["p"] == 0].unique()) == ["< 1e-12"]
    hh = shown[shown["subset"] == "hh-rlhf"].set_index("called")["p"]
    assert hh["helpfulness"] == "6.3e-05" and hh["safety"] == "0.27"
    assert list(shown) == ["subset", "called", "head", "n", "win_rate", "p", "verdict"]
    assert shown["win_rate"][8] == "0.429 [0.395, 0.463]", "of helpfulness on hh-rlhf"
    noted = "helpfulness, targeted (number of pairs taken from TYPE B)"
    assert (shown["subset"] == noted).sum() == (made[2]["note"] != "").sum() == 5


def test_counts_add_up(made):
    table = made[0]
    counts = words.counts(table)
    assert counts["claims"].sum() == len(table)
    assert list(counts) == ["system", "part", "verdict", "claims"]
    sarm = counts[counts["system"] == "SARM"]
    assert sarm["verdict"].tolist() == list(words.VERDICTS.values())
    assert sarm["claims"].tolist() == [1, 0, 1, 2]


def test_values_are_text_and_follow_the_figures(made, figures):
    values = words.glued(*made)
    assert values["readability-is"] == "beavertails-is_safe" and values["p-helpfulness"] == "6e-05"
    assert values["heads-misnamed"] == "13" and values["gap-needed"] == "0.14"
    counted = [int(values[f"claims-{verdict}"]) for verdict in words.VERDICTS]
    assert sum(counted) == int(values["claims"]) == len(made[0])
    own = made[0]["system"].value_counts()[words.AUDIT]
    counted = [int(values[f"audit-{verdict}"]) for verdict in words.VERDICTS]
    assert sum(counted) == int(values["audit-claims"]) == own < len(made[0])
    named = made[0]["points"].str.contains(r"\b1\b") & (made[0]["system"] == words.AUDIT)
    failing = (made[0].loc[named, "verdict"] == "fails").sum()
    assert int(values["audit-names-fail"]) == failing > 1
    assert f"We cut this audit into {own} claims" in words.OF_THE_AUDIT.format_map(values)
    assert all(isinstance(value, str) and value for value in values.values())
    given = copy.deepcopy(figures)
    given["audit"]["hh"]["rates"]["depth"] = 0.51  # .613 is above one half, .510 is not
    changed = words.glued(made[0], made[1], stats.rates(given), *made[3:])
    assert (values["rates-above"], changed["rates-above"]) == ("4", "3")


def test_takeaways_name_their_set(made):
    sentences = words.takeaways(words.glued(*made))
    about = [text for text in sentences if "valid" in text or "helpfulness at" in text]
    assert all("hh-rlhf" in text for text in about)
    assert sum("valid" in text for text in sentences) == 1


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.30, 0.38, "more helpful, it goes against them (0.340 [0.300, 0.380])"),
        (0.55, 0.70, "with them too"),
        (0.45, 0.55, "neither way for sure"),
    ],
)
def test_the_crossover_says_what_its_interval_allows(low, high, says):
    row = ("harmless", stats.PARTS[0], 0.65, 0.6, 0.7, "", stats.PARTS[1], 0.34, low, high)
    columns = ["head", "part", "own", "own_low", "own_high", "length"]
    columns += ["dataset", "other", "low", "high"]
    crossed = pd.DataFrame([row], columns=columns)
    text = words.crossover(crossed)
    assert text.startswith(
        "Asked which dialogue people found less harmful, harmless agrees with people "
    )
    assert "often (0.650 [0.600, 0.700]; not tested against other heads);" in text and says in text
    both = words.crossover(pd.concat([crossed, crossed]))
    assert both.count("asked the other question, it goes") == 2
    owed = words.crossover(crossed.assign(length="as the longer response"))
    assert "0.700], as the longer response; not tested" in owed
    assert "No head" in words.crossover(crossed.head(0))


def patched(*rows: tuple[float, float, float, float]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Depths and patches of effects, a row a data set; ends of intervals are .01 away."""
    told = [
        {"model": "m", "dataset": f"d{k}"}
        | {
            f"{name}{end}": value + shift
            for name, value in zip(("plain", "mended", "alignment", "norm"), row, strict=True)
            for end, shift in (("", 0), ("_low", -0.01), ("_high", 0.01))
        }
        for k, row in enumerate(rows)
    ]
    table = pd.DataFrame(told)
    names = {"plain": "raw", "mended": "first", "alignment": "opposed", "norm": "stays"}
    return table.rename(columns=lambda name: _renamed(name, names)), table


def _renamed(name: str, names: dict[str, str]) -> str:
    first, _, end = name.partition("_")
    return "_".join(filter(None, [names.get(first, first), end]))


def test_what_mechanisms_say_is_a_number_with_its_interval_or_a_span_over_data_sets():
    given = {
        "attribution": {"skywork": -0.2, "armorm": -0.1},
        "attribution_later": {"skywork": -0.3, "armorm": 0.1},
    }
    told = words.mechanisms(*patched((0.1, 0.3, 0.25, -0.05)), given)
    assert "(ρ -0.200 and -0.100 with version 1, -0.300 and +0.100 since)" in told["mechanisms"]
    assert "for m on d0 ρ is +0.10 [+0.09, +0.11]; with the" in told["mechanisms"]
    assert told["mechanisms"].endswith("mended, +0.30 [+0.29, +0.31]. The rewrite keeps both.")
    assert "adds +0.25 [+0.24, +0.26] to ρ" in told["faults"]
    assert "after 10% [9%, 11%] of the layers; with the norm that is after 30%" in told["lens"]
    assert "another response in 25% [24%, 26%]" in told["lens-end"]
    told = words.mechanisms(*patched((0.1, 0.3, 0.25, -0.05), (0.0, 0.2, 0.3, 0.0)), given)
    assert "for m on d0, d1 ρ is +0.00 to +0.10" in told["mechanisms"]
    assert "norm adds -0.05 to +0.00." in told["faults"]


def test_without_effects_mechanisms_say_so():
    nothing = pd.DataFrame()
    assert set(words.mechanisms(nothing, nothing, {}).values()) == {words.NO_EFFECTS}
