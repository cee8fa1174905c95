"""XSTest: comparisons from the real labels, and each defect on made-up rows."""

from __future__ import annotations

import csv

import pytest

from lib.data import load_items
from lib.errors import DataError

FULL, PARTIAL, REFUSED = "1_full_compliance", "3_partial_refusal", "2_full_refusal"

# Made up for the tests, in the published schema.
PROMPTS = [
    {"id": "1", "prompt": "Made up: kill a process?", "type": "homonyms", "label": "safe"},
    {"id": "2", "prompt": "Made up: kill?", "type": "contrast_homonyms", "label": "unsafe"},
    {"id": "3", "prompt": "Made up: kill time?", "type": "homonyms", "label": "safe"},
]


def answer(number: int, text: str, label: str, **other) -> dict:
    row = {"id": f"v2-{number}", "completion": text, "final_label": label}
    published = PROMPTS[number - 1]
    return {**row, "type": published["type"], "prompt": published["prompt"], **other}


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def source(tmp_path):
    def fill(prompts=PROMPTS, **answers):
        write(tmp_path / "xstest_prompts.csv", prompts)
        for model, rows in answers.items():
            write(tmp_path / f"{model}.csv", rows)
        return str(tmp_path)

    return fill


def pairs(items):
    text = items.responses["text"]
    return [
        (text[better], text[worse], subset)
        for better, worse, subset in items.comparisons[["better", "worse", "subset"]].itertuples(
            index=False
        )
    ]


def test_real_files_give_149_comparisons_and_all_450_prompts(shared_data):
    items = load_items("xstest", source=shared_data / "xstest")
    # GPT-4 by Llama-2: 83 + 49 + 2 + 6 + 1 + 8 cells off the diagonal of the label table.
    assert items.comparisons["subset"].value_counts().to_dict() == {
        "should-respond": 143,
        "should-refuse": 6,
    }
    assert len(items) == 450
    # 900 completions, of which Llama-2 repeats GPT-4's answer to two prompts word for word.
    assert items.dropped == {"repeated completion": 2}
    assert items.responses["refusal"].value_counts().to_dict() == {0: 329, 0.5: 64, 1: 505}
    assert items.missing == ("llama2new", "mistralinstruct", "mistralguard")


def test_real_better_completions_comply_if_safe_and_refuse_if_not(shared_data):
    items = load_items("xstest", source=shared_data / "xstest")
    refusal = items.responses["refusal"].to_numpy()
    rows = items.comparisons
    better, worse = refusal[rows["better"]], refusal[rows["worse"]]
    safe = (rows["subset"] == "should-respond").to_numpy()
    assert safe.any() and not safe.all()
    assert (better[safe] < worse[safe]).all()
    assert (better[~safe] > worse[~safe]).all()


def test_the_prompt_that_was_reworded_since_is_shown_as_the_models_saw_it(shared_data):
    items = load_items("xstest", source=shared_data / "xstest")
    [prompt] = items.prompts["prompt"][items.prompts["item"] == "195"]
    assert "my enemy's" in prompt[0]["content"]  # "someone's" in xstest_prompts.csv


def test_compliance_beats_partial_beats_refusal_on_a_safe_prompt_and_the_reverse(source):
    labels = {"gpt4": FULL, "llama2orig": PARTIAL, "llama2new": REFUSED}
    rows = {m: [answer(n, f"{m} {n}", label) for n in (1, 2)] for m, label in labels.items()}
    items = load_items("xstest", source=source(**rows))
    assert pairs(items) == [
        ("gpt4 1", "llama2orig 1", "should-respond"),
        ("gpt4 1", "llama2new 1", "should-respond"),
        ("llama2orig 1", "llama2new 1", "should-respond"),
        ("llama2orig 2", "gpt4 2", "should-refuse"),
        ("llama2new 2", "gpt4 2", "should-refuse"),
        ("llama2new 2", "llama2orig 2", "should-refuse"),
    ]
    assert items.dropped == {"no labelled completion": 1}


def test_an_item_without_a_comparison_stays_for_training(source):
    rows = {
        "gpt4": [answer(1, "sure", FULL), answer(3, "yes", FULL)],
        "llama2orig": [answer(1, "of course", FULL)],
    }
    items = load_items("xstest", source=source(**rows))
    assert pairs(items) == []
    assert list(items.prompts["item"]) == ["1", "3"]
    assert list(items.responses["refusal"]) == [0, 0, 0]


def test_unusable_completions_are_counted_by_reason(source):
    first = [answer(1, "sure", FULL), answer(2, "no", "9_unclear"), answer(3, " ", FULL)]
    second = [
        answer(1, "sure", REFUSED),
        answer(2, "sorry", REFUSED),
        answer(3, "a", FULL, id="v2-77"),
    ]
    third = [answer(1, "never", REFUSED, prompt="Made up: worded otherwise?")]
    given = source(gpt4=first, llama2orig=second, llama2new=third)
    items = load_items("xstest", source=given)
    assert items.dropped == {
        "no human label": 1,
        "empty response": 1,
        "repeated completion": 1,
        "no such prompt": 1,
        "prompts differ": 1,
        "no labelled completion": 1,
    }


def test_completions_for_another_version_of_the_prompts_are_an_error(source):
    rows = [answer(1, "sure", FULL, type="definitions")]
    with pytest.raises(DataError, match="one release"):
        load_items("xstest", source=source(gpt4=rows))


def test_a_prompt_neither_safe_nor_unsafe_is_an_error(source):
    prompts = [{**PROMPTS[0], "label": "maybe"}]
    with pytest.raises(DataError, match="'maybe' at prompt 1"):
        load_items("xstest", source=source(prompts, gpt4=[answer(1, "sure", FULL)]))


def test_prompts_and_at_least_one_models_completions_are_needed(tmp_path):
    with pytest.raises(DataError, match="xstest_prompts"):
        load_items("xstest", source=tmp_path)
    write(tmp_path / "xstest_prompts.csv", PROMPTS)
    with pytest.raises(DataError, match="completions_gpt4"):
        load_items("xstest", source=tmp_path)


def test_a_checkout_of_the_authors_repository_is_a_source(tmp_path):
    write(tmp_path / "xstest_prompts.csv", PROMPTS)
    folder = tmp_path / "model_completions"
    write(folder / "xstest_v2_completions_gpt4.csv", [answer(1, "sure", FULL)])
    write(folder / "xstest_v2_completions_mistralguard.csv", [answer(1, "no", REFUSED)])
    items = load_items("xstest", source=tmp_path)
    assert pairs(items) == [("sure", "no", "should-respond")]
