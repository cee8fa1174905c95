"""Published figures are complete, agree with what the package knows, and refuse to be damaged."""

import pytest

from lib.data import published
from lib.data.reward_bench import COUNTS
from lib.errors import DataError
from lib.models.names import ARMORM


@pytest.fixture(scope="module")
def figures():
    return published.figures()


def test_heads_are_those_of_the_model_card(figures):
    assert ["-".join(head) for head in figures["armorm"]["heads"]] == list(ARMORM)


def test_every_name_that_is_used_is_one_of_the_audits(figures):
    audit = figures["audit"]
    used = {*audit["probes"], *audit["type_b"], *(n for row in audit["spearman"] for n in row[:2])}
    for part in ("hh", "rewardbench", "type_a", "helpfulness_targeted"):
        used |= set(audit[part]["rates"])
    assert used <= set(audit["names"]) and len(set(audit["names"])) == 19


def test_subset_sizes_are_the_benchmarks(figures):
    bench = figures["audit"]["rewardbench"]
    assert {name: n for name, (n, _) in bench["safety_by_subset"].items()}.items() <= COUNTS.items()
    assert bench["n"] == sum(COUNTS.values())


def test_adversarial_subsets_have_llmbars_sizes_and_the_studys_rates(figures):
    pairs, tension = figures["llmbar"]["pairs"], figures["tension"]
    assert pairs.items() <= COUNTS.items()
    assert set(tension["accuracy"]) == set(tension["overlap_by_model"])
    for accuracy in [each for models in tension["accuracy"].values() for each in models.values()]:
        assert {name for name in accuracy if name.startswith("llmbar-adver")} == set(pairs)
        for name, n in pairs.items():  # means over seeds: multiples of 1/(3n), to rounding
            rows = tension["seeds"] * n
            wins = accuracy[name] / 100 * rows
            assert abs(wins - round(wins)) <= 0.00005 * rows + 1e-9


def test_a_number_that_was_not_published_says_where_it_is_from(figures):
    targeted, type_b = (figures["audit"][k] for k in ("helpfulness_targeted", "type_b"))
    assert targeted["note"] == "number of pairs taken from TYPE B"
    assert [targeted["rates"]["helpfulness"], targeted["n"]] == type_b["helpfulness"]


def damaged(tmp_path, old: str, new: str):
    text = published.FILE.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "published.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "needed"),
    [
        ("depth: 0.613", "depth: 61.3", "a rate between 0 and 1 for audit.hh.rates.depth"),
        ("depth: 0.613", "depth: '.613'", "a rate between 0 and 1 for audit.hh.rates.depth"),
        ("gap: 0.038", "gap: .nan", "a finite number for audit.geometry.gap"),
        ("conciseness, relevance]", "conciseness]", "19 names, one for each head"),
        ("source: sarm-card", "source: hearsay", "a source of 'sarm'"),
        ("\ntension:\n", "\nstrain:\n", "a block 'tension'"),
        ("sources:", "sources: [", "YAML"),
    ],
)
def test_damage_is_refused_with_its_place(tmp_path, old, new, needed):
    with pytest.raises(DataError) as caught:
        published.figures(damaged(tmp_path, old, new))
    assert needed in caught.value.needed


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "published.yaml"
    path.write_text("- 1\n")
    with pytest.raises(DataError, match="blocks in published.yaml"):
        published.figures(path)
