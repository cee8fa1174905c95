"""``python -m lib diff``: identical audits, flipped outcomes, noise, and what can't be paired."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom

from lib.__main__ import main
from lib.audits import document, outcomes, words
from lib.audits.changes import ALIKE, HIGHER, LOWER, SAME, UNPAIRED, changes
from lib.audits.outcomes import Outcomes
from lib.errors import DataError

NAMES = {"name": "m", "fingerprint": {}, "check": "", "verdicts": []}
EMPTY = {"items": "d", "how": "", "fingerprint": {}, "options": {}, "versions": {}}
EMPTY |= {"dropped": {}, "missing": []}


def audit(won: dict[str, dict[str, np.ndarray]], per_prompt: int = 1, first: int = 0, **given):
    """An audit of one model: dataset → rule → who won; ids count from ``first``."""
    sets = []
    for name, rules in won.items():
        n = len(next(iter(rules.values())))
        ids = np.arange(first, first + n, dtype=np.uint64)
        found = Outcomes(ids, np.arange(n) // per_prompt, np.full(n, "s"), rules)
        sets.append(EMPTY | {"name": name, "outcomes": outcomes.pack(found)})
    models = [NAMES | {"datasets": sets} | given]
    return {"format": 1, "made_with": {"reward-audit": "1"}, "models": models}


def verdict(told: str, head: str = "h", dataset: str = "xstest", of: str = "validity"):
    return {"of": of, "dataset": dataset, "judged": head, "part": "all", "verdict": told} | {
        "numbers": {},
        "note": "",
    }


def wins(rate: float, n: int = 200, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(n) < rate).astype(float)


@pytest.mark.parametrize("seed", range(8))
def test_an_audit_and_itself_differ_in_nothing(seed):
    source = np.random.default_rng(seed)
    rules = {
        f"head {k}": source.choice(
            [0, 0.5, 1, np.nan], size=source.integers(1, 50), p=[0.4, 0.1, 0.4, 0.1]
        )
        for k in range(1)
    }
    one = audit({"xstest": rules, "llmbar": rules}, verdicts=[verdict("tracks")])
    found = changes(one, json.loads(json.dumps(one)))
    assert found.empty and set(found.moved["verdict"]) == {SAME}
    assert words.takeaways(found) == [words.NOTHING]


def test_two_audits_of_the_same_runs_are_empty(content, run_of):
    runs = run_of(), run_of("stimuli/exploits", subset=["length", "keyword"] * 60)
    found = changes(content(*runs, name="one"), content(*runs, name="two"))
    assert found.empty
    assert len(found.moved) == 3 * (1 + 2)  # two heads and a score, all and each axis


@pytest.mark.parametrize("flipped", [30, 60])
def test_outcomes_that_flip_are_found_and_which_way(flipped):
    then = np.concatenate([np.ones(100), np.zeros(100)])
    now = then.copy()
    now[:flipped] = 0
    one, other = audit({"xstest": {"h": then, "g": then}}), audit({"xstest": {"h": now, "g": then}})
    for before, after, way in ((one, other, LOWER), (other, one, HIGHER)):
        found = changes(before, after)
        told = found.moved.set_index("judged")["verdict"]
        assert told.to_dict() == {"h": way, "g": SAME}
        assert abs(found.found["difference"].item()) == flipped / 200
        assert abs(found.found["p"].item()) == pytest.approx(2.0 ** (1 - flipped))


def test_a_verdict_that_changes_within_noise_is_called_so():
    then, now = wins(0.6), wins(0.6)
    now[:3] = 1 - now[:3]
    one = audit({"xstest": {"h": then}}, verdicts=[verdict("tracks")])
    other = audit({"xstest": {"h": now}}, verdicts=[verdict("inconclusive")])
    (row,) = changes(one, other).verdicts.itertuples()
    assert (row.before, row.after, row.moved) == ("tracks", "inconclusive", ALIKE)
    assert "within noise" in " ".join(words.takeaways(changes(one, other)))


def test_a_verdict_that_changes_without_an_outcome_is_told_apart():
    won = {"xstest": {"h": wins(0.6)}}
    one, other = (audit(won, verdicts=[verdict(told)]) for told in ("tracks", "strong"))
    (row,) = changes(one, other).verdicts.itertuples()
    assert row.moved == SAME


def test_verdicts_of_several_rules_and_of_one_audit_alone_are_not_paired():
    won = {"xstest": {"h": wins(0.6)}}
    one = audit(won, verdicts=[verdict("higher", "other", of="compare"), verdict("tracks", "gone")])
    other = audit(won, verdicts=[verdict("lower", "other", of="compare"), verdict("x", "new")])
    rows = changes(one, other).verdicts
    assert rows["change"].tolist() == ["changed", "gone", "new"]
    assert set(rows["moved"]) == {UNPAIRED}


def test_only_comparisons_of_both_are_paired_wherever_they_stand():
    then = wins(0.5, 100)
    one, other = audit({"xstest": {"h": then}}), audit({"xstest": {"h": then[40:]}}, first=40)
    row = changes(one, other).moved.iloc[0]
    assert (row["n"], row["verdict"]) == (60, SAME)
    nothing = changes(one, audit({"xstest": {"h": then}}, first=1000)).moved.iloc[0]
    assert (nothing["n"], nothing["verdict"]) == (0, UNPAIRED)


def test_flips_of_one_prompt_are_one():
    """Ten rows of one prompt flip together: one sign, p = 1."""
    then = np.ones(100)
    now = then.copy()
    now[:10] = 0
    sets = ({"xstest": {"h": each}} for each in (then, now))
    found = changes(*(audit(each, per_prompt=10) for each in sets))
    row = found.moved.iloc[0]
    assert (row["prompts"], row["p"], row["verdict"]) == (10, 1.0, ALIKE)


def test_what_no_test_could_find_is_not_in_the_family():
    then = wins(0.5)
    now = then.copy()
    now[:7] = 1 - now[:7]
    now[:7], then[:7] = 1, 0
    rules = {f"same {k}": wins(0.5, seed=k) for k in range(50)}
    pair = audit({"xstest": {"h": then} | rules}), audit({"xstest": {"h": now} | rules})
    (row,) = changes(*pair).found.itertuples()
    assert row.p_adjusted == row.p == pytest.approx(2.0**-6)


def test_worlds_that_do_not_differ_are_seldom_called_different():
    """Outcomes drawn again at the same rate: any of six heads found in at most 5% of worlds."""
    source = np.random.default_rng(5)
    worlds, found = 150, 0
    for _ in range(worlds):
        sets = [
            {"xstest": {f"h{k}": (source.random(120) < 0.6).astype(float) for k in range(6)}}
            for _ in range(2)
        ]
        found += len(changes(*(audit(each, per_prompt=2) for each in sets)).found) > 0
    assert found <= binom.ppf(0.99, worlds, 0.05)


def test_models_are_paired_by_name_or_as_the_only_ones():
    one = audit({"xstest": {"h": wins(0.5)}})
    other = audit({"xstest": {"h": wins(0.5)}}, name="checkpoint-2")
    found = changes(one, other)
    assert found.notes == ["m then, checkpoint-2 now."] and not found.empty
    both = one | {"models": [*one["models"], NAMES | {"name": "second", "datasets": []}]}
    assert changes(both, one).notes == ["Models that are gone: second."]
    with pytest.raises(DataError, match="a model that both"):
        changes(both, both | {"models": [NAMES | {"name": n, "datasets": []} for n in "ab"]})


def test_a_dataset_under_another_name_is_known_by_its_digest():
    won = {"h": wins(0.5)}
    found = changes(audit({"file:a.jsonl": won}), audit({"file:b.jsonl": won}))
    assert found.moved["dataset"].tolist() == ["file:a.jsonl"]


def test_what_made_two_audits_is_told_where_it_differs():
    prints = dict.fromkeys(("backbone", "configuration", "tokenizer", "template", "tokens"), "x")
    one = audit({"xstest": {"h": wins(0.5)}}, fingerprint=prints | {"heads": "1"})
    other = audit({"xstest": {"h": wins(0.5)}}, fingerprint=prints | {"heads": "2"})
    other["made_with"] = {"reward-audit": "2"}
    other["models"][0]["datasets"][0]["items"] = "another"
    assert changes(one, other).notes == [
        "Made with other versions: reward-audit 1 then and 2 now.",
        "m: heads are others.",
        "m on xstest: other items were scored.",
    ]


def test_audits_without_a_common_dataset_are_an_error():
    one, other = audit({"xstest": {"h": wins(0.5)}}), audit({"llmbar": {"h": wins(0.5)}})
    other["models"][0]["datasets"][0]["items"] = "another"
    with pytest.raises(DataError, match="a dataset that both audits have.*xstest; and llmbar"):
        changes(one, other)


def test_exit_statuses_tell_nothing_some_and_beyond_noise(tmp_path, capsys):
    then = wins(0.6)
    near, far = then.copy(), np.zeros_like(then)
    near[:2] = 1 - near[:2]
    files = {}
    for name, (won, told) in {
        "then": (then, "tracks"),
        "near": (near, "inconclusive"),
        "far": (far, "inverted"),
    }.items():
        files[name] = str(tmp_path / f"{name}.json")
        document.save(files[name], audit({"xstest": {"h": won}}, verdicts=[verdict(told)]))
    assert main(["diff", files["then"], files["then"]]) == 0
    assert words.NOTHING in " ".join(capsys.readouterr().out.split())
    assert main(["diff", files["then"], files["near"]]) == 3
    assert main(["diff", files["then"], files["far"]]) == 4
    (tmp_path / "old.json").write_text('{"format": 0}')
    assert main(["diff", str(tmp_path / "old.json"), files["then"]]) == 1
    said = capsys.readouterr().err
    assert "needed format 1" in said and "python -m lib report" in said
