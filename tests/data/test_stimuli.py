"""Stimuli: every pair varies what it says it varies and holds the rest."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from lib.data import load_items, measures, stimuli
from lib.data.stimuli import proxies
from lib.errors import DataError

# Each paraphrase of a pair is one, under the pair's number.
PAIRS = [
    (part, stem, number, document["concept"], pair | {"high": high})
    for part in stimuli.PARTS
    for stem, document in stimuli.documents(part).items()
    for number, pair in enumerate(document["pairs"], 1)
    for high in stimuli.highs(pair)
]
DOCUMENTS = sorted({(part, stem) for part, stem, *_ in PAIRS})
MOVES_LENGTH = ("verbosity", "length", "overall")


def pairs_of(part: str, stem: str | None = None) -> list[dict]:
    return [pair for p, s, _, _, pair in PAIRS if p == part and stem in (None, s)]


def written(part: str, stem: str) -> list[dict]:
    """Pairs as they stand in the file, paraphrases and all."""
    return stimuli.documents(part)[stem]["pairs"]


def prompt_text(pair: dict) -> str:
    prompt = pair["prompt"]
    return prompt if isinstance(prompt, str) else "\n".join(turn["content"] for turn in prompt)


def test_each_set_has_as_many_pairs_of_a_concept_as_it_says():
    assert {stem for part, stem in DOCUMENTS if part == "controlled"} == set(proxies.CONCEPTS)
    assert {stem for part, stem in DOCUMENTS if part == "probes"} == set(proxies.PROBES)
    assert {stem for part, stem in DOCUMENTS if part == "concepts"} == set(proxies.SIX)
    assert {stem for part, stem in DOCUMENTS if part == "exploits"} == set(proxies.EXPLOITS)
    sizes = {"controlled": 60, "probes": 24, "concepts": 24, "holistic": 100, "cascade": 12}
    sizes["exploits"] = 30
    for part, least in sizes.items():
        few = {s: len(written(p, s)) for p, s in DOCUMENTS if p == part}
        assert min(few.values()) >= least, few


def test_prompts_are_many_and_varied():
    distinct = {part: {prompt_text(pair) for pair in pairs_of(part)} for part in stimuli.PARTS}
    assert len(distinct["controlled"]) >= 200
    for part, stem in DOCUMENTS:
        pairs = written(part, stem)
        assert len({prompt_text(pair) for pair in pairs}) >= 0.9 * len(pairs), stem
        assert len({pair["kind"] for pair in pairs}) >= 10, stem


def test_every_scenario_of_the_cascade_is_crossed_with_every_dimension():
    documents = stimuli.documents("cascade").values()
    dimensions = ["alignment faking", "deception", "malicious cooperation", "sabotage"]
    dimensions += ["self-preservation", "sycophancy"]
    assert [document["concept"] for document in documents] == dimensions
    told = {
        tuple((pair["kind"], pair["prompt"]) for pair in document["pairs"])
        for document in documents
    }
    assert len(told) == 1, "the same prompts in the same order"
    items = load_items("stimuli/cascade")
    assert set(items.comparisons["criterion"]) == {"aligned"}
    assert items.comparisons["subset"].value_counts().to_dict() == dict.fromkeys(dimensions, 16)
    first = stimuli.documents("cascade")["alignment-faking"]["pairs"][0]
    assert items.responses["text"][items.comparisons["better"][0]] == first["high"]


def test_the_loader_gives_every_pair_with_its_concept():
    items = load_items("stimuli/controlled")
    assert len(items) == len(items.comparisons) == len(pairs_of("controlled"))
    assert (items.comparisons["criterion"] == items.comparisons["subset"]).all()
    assert set(items.comparisons["criterion"]) == set(proxies.CONCEPTS)
    first = pairs_of("controlled")[0]
    row = items.comparisons.iloc[0]
    assert items.responses["text"][row["better"]] == first["high"]
    assert items.responses["text"][row["worse"]] == first["low"]


def test_every_exploit_is_told_in_two_paraphrases_of_many_wordings():
    for stem, document in stimuli.documents("exploits").items():
        added = set()
        for pair in document["pairs"]:
            assert len(set(stimuli.highs(pair))) == 2, stem
            plain = set(re.split(r"(?<=[.!?])\s+", pair["low"]))
            added |= {
                part
                for high in stimuli.highs(pair)
                for part in re.split(r"(?<=[.!?])\s+", high)
                if part not in plain
            }
        assert len(added) >= 15, stem
    items = load_items("stimuli/exploits")
    assert len(items) == 270 and len(items.comparisons) == 540
    first = stimuli.documents("exploits")["authority"]["pairs"][0]
    told = items.comparisons.iloc[:2]
    assert items.responses["text"][told["better"]].tolist() == first["high"]
    assert items.responses["text"][told["worse"]].tolist() == [first["low"]] * 2


def test_prompts_of_exploits_are_in_no_other_set():
    others = [part for part in stimuli.PARTS if part != "exploits"]
    known = {prompt_text(pair) for part in others for pair in pairs_of(part)}
    assert not known & {prompt_text(pair) for pair in pairs_of("exploits")}


def test_every_response_is_text_and_every_prompt_ends_with_the_user():
    for part, stem, number, _, pair in PAIRS:
        where = f"{part}/{stem}:{number}"
        assert isinstance(pair["high"], str) and isinstance(pair["low"], str), where
        if not isinstance(pair["prompt"], str):
            roles = [turn["role"] for turn in pair["prompt"]]
            assert roles[-1] == "user" and set(roles) <= {"system", "user", "assistant"}, where
            assert all(a != b for a, b in itertools.pairwise(roles)), where


def test_every_pair_holds_what_its_concept_must_hold():
    broken = [
        f"{part}/{stem}:{number}: {sentence}"
        for part, stem, number, concept, pair in PAIRS
        for sentence in proxies.check(concept, pair["high"], pair["low"], prompt_text(pair))
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("part", stimuli.PARTS)
def test_fewer_than_two_in_a_hundred_are_near_duplicates(part):
    texts = {
        f"{stem}:{number}": f"{prompt_text(pair)} {stimuli.highs(pair)[0]}"
        for stem, document in stimuli.documents(part).items()
        for number, pair in enumerate(document["pairs"], 1)
    }
    found = proxies.near_duplicates(texts)
    involved = {key for a, b, _ in found for key in (a, b)}
    assert len(involved) < 0.02 * len(texts), found


# Marks are tokens of their own, so formatting can't be balanced to the same degree.
@pytest.mark.parametrize(("part", "stem"), [d for d in DOCUMENTS if d[1] not in MOVES_LENGTH])
def test_the_longer_text_is_no_clue_to_the_answer(part, stem):
    longer = [
        np.sign(measures.n_tokens(pair["high"]) - measures.n_tokens(pair["low"]))
        for pair in pairs_of(part, stem)
    ]
    share = (np.mean(longer) + 1) / 2
    low, high = (0.4, 0.6) if stem != "formatting" else (0.25, 0.75)
    assert low <= share <= high


# The authors balanced words and marks, not the tokens of one tokenizer; long or rare words
# split into several. So a tenth of a concept's pairs may lie outside the limits, none far.
@pytest.mark.parametrize(("part", "stem"), [d for d in DOCUMENTS if d[1] not in MOVES_LENGTH])
def test_lengths_hold_in_the_embedded_models_tokens(embedded_tokenizer, part, stem):
    pairs = pairs_of(part, stem)
    tokens = {
        side: [
            len(ids)
            for ids in embedded_tokenizer([p[side] for p in pairs], add_special_tokens=False)[
                "input_ids"
            ]
        ]
        for side in ("high", "low")
    }
    ratio = np.divide(tokens["high"], tokens["low"])
    low, high = proxies.LENGTH_RATIO
    assert ((ratio < low) | (ratio > high)).mean() <= 0.1
    assert ratio.min() >= 0.7 and ratio.max() <= 1.6
    assert 0.9 <= np.exp(np.log(ratio).mean()) <= 1.1


SAME = "The kettle boils in three minutes and then it clicks off."


@pytest.mark.parametrize(
    ("concept", "high", "low", "sentence"),
    [
        ("safety", SAME, SAME, "the same text"),
        ("holistic", SAME, SAME, "the same text"),
        ("safety", f"{SAME} {SAME} More.", SAME, "ratio high/low is 2.17"),
        ("safety", SAME.replace("kettle", "refrigerator"), SAME, "reading ease differs by -2"),
        ("safety", f"**{SAME}**", SAME, r"\+1 formatting marks"),
        (
            "correctness",
            "I can't say when the kettle boils, it's hard.",
            SAME,
            "with a refusal",
        ),
        ("verbosity", SAME + " Yes.", SAME, "needed at least 1.5"),
        ("readability", SAME, SAME.replace("then", "soon"), r"needed at least \+15"),
        ("formatting", f"**{SAME}**", SAME, r"\+1 formatting marks, needed at least \+2"),
        ("repetition", SAME, SAME.replace("then", "soon"), r"rise by \+0.00"),
        ("refusal", SAME, SAME.replace("then", "soon"), "high to open with a refusal"),
        ("keyword", SAME, SAME.replace("then", "soon"), r"content words rise by \+0"),
    ],
)
def test_a_pair_that_breaks_a_proxy_is_told_which(concept, high, low, sentence):
    assert any(re.search(sentence, found) for found in proxies.check(concept, high, low))


@pytest.mark.parametrize(
    ("concept", "high", "low"),
    [
        ("safety", SAME, SAME.replace("clicks", "shuts")),
        (
            "safety",
            "I can't help with that today, sorry.",
            "Help with that today is easy, sure.",
        ),
        ("verbosity", f"{SAME} {SAME}", SAME),
        ("holistic", SAME * 9, "No."),
        ("formatting", "- Boil it all.\n- Pour it out.", "Boil it all.\nPour it out."),
    ],
)
def test_a_pair_that_moves_only_what_it_may_passes(concept, high, low):
    assert proxies.check(concept, high, low) == []


def test_near_duplicates_are_found_by_shared_five_grams():
    # 12 tokens and 8 five-grams each; the last word differs, so 7 of 9 are shared.
    first = "one two three four five six seven eight nine ten eleven twelve"
    texts = {"a": first, "b": first.replace("twelve", "more"), "c": "something else altogether"}
    assert proxies.near_duplicates(texts) == [("a", "b", 7 / 9)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("concept: x\npairs: [", "YAML in bad.yaml"),
        ("concept: x\n", "keys concept and pairs in bad.yaml"),
        ("- a\n", "keys concept and pairs in bad.yaml"),
        (
            "concept: x\npairs:\n- {prompt: q, high: a, low: b}\n- {prompt: q, high: a}\n",
            "pair 2 of bad.yaml; found no low",
        ),
    ],
)
def test_a_damaged_file_is_an_error_that_names_the_place(tmp_path, text, message):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(DataError, match=message):
        stimuli.read(tmp_path / "bad.yaml")


def test_a_set_must_be_named():
    with pytest.raises(DataError, match="stimuli/controlled"):
        load_items("stimuli")
