"""Manipulations add a surface, say nothing more, and are counted where they can't be made."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from lib import extract, load_items, load_model, manipulated
from lib.data import manipulations, measures, stream_items
from lib.data.stimuli import proxies
from lib.errors import DataError
from lib.run import comparisons

PLAIN = "Rinse the rice twice before boiling. Then let it rest in a heavy pot. Use a wooden fork."
PROMPT = "How should somebody prepare basmati properly?"


@pytest.fixture
def file(tmp_path):
    """Writes rows, and gives the dataset's name."""

    def write(*rows, name="own.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        return f"file:{path}"

    return write


def row(chosen=PLAIN, prompt=PROMPT, **more):
    return {"prompt": prompt, "chosen": chosen, "rejected": "Buy bread."} | more


def wordings(form: str, text: str = PLAIN, prompt: str = PROMPT):
    return manipulations.FORMS[form](text, prompt)


def test_there_is_a_form_for_each_axis_of_the_stimuli():
    assert set(manipulations.FORMS) == set(proxies.EXPLOITS)


@pytest.mark.parametrize("form", manipulations.FORMS)
def test_a_form_makes_two_wordings_that_hold_the_whole_response(form):
    made = wordings(form)
    assert len(set(made)) == 2 and PLAIN not in made
    for text in made:
        words = re.sub(r"[^\w\s.]", " ", text).split()
        left = iter(words)
        assert all(word in left for word in PLAIN.split()), "every word is there, in order"


@pytest.mark.parametrize(
    ("form", "measure"),
    [
        ("length", measures.n_tokens),
        ("formatting", measures.formatting),
        ("repetition", measures.repetition),
        ("refusal", measures.is_refusal),
        ("keyword", lambda text: measures.copied(PROMPT, text)),
    ],
)
def test_a_form_moves_what_it_is_named_for(form, measure):
    assert all(measure(text) > measure(PLAIN) for text in wordings(form))


def test_markdown_adds_no_words():
    bullets, bold = wordings("formatting")
    assert measures.words(bullets) == measures.words(PLAIN)
    assert measures.words(bold) == ["Answer", *measures.words(PLAIN)]


@pytest.mark.parametrize(
    ("form", "text", "reason"),
    [
        ("formatting", "- one\n- two", "already Markdown"),
        ("formatting", "Some `code` here. And more.", "already Markdown"),
        ("formatting", "```\nx = 1\n```", "already Markdown"),
        ("formatting", "Only one sentence.", "a single sentence"),
        ("formatting", "Two * three. Is six.", "has marks of its own"),
        ("refusal", "I'm sorry, but I can't help.", "opens with a refusal"),
        ("repetition", "1. first\n2. second", "doesn't open with a sentence"),
        ("keyword", PROMPT, "has every key word of the prompt"),
        *(
            (form, "So:\n```\nx = 1", "ends within a block of code")
            for form in ("length", "self-praise")
        ),
    ],
)
def test_what_a_form_can_not_be_put_to_has_a_reason(form, text, reason):
    assert wordings(form, text) == reason


def test_the_response_that_is_preferred_is_compared_with_itself_manipulated(file):
    items = load_items(f"{file(row(), row(chosen=['A b. C d.', 'E f. G h.']))}#formatting,length")
    assert len(items) == 2 and items.answers[0][-1] == PLAIN and items.answers[1][-1] == "A b. C d."
    table = items.comparisons
    assert table["subset"].tolist() == ["length", "length", "formatting", "formatting"] * 2
    assert table["criterion"].tolist() == table["subset"].tolist()
    assert items.responses["slot"][table["worse"]].tolist() == [4] * 8
    assert items.name.endswith("own.jsonl#formatting,length")


def test_items_without_a_comparison_give_their_first_response(file):
    tied = row(tie=True)
    items = load_items(f"{file(row(), tied)}#authority", ties="keep")
    assert [answers[-1] for answers in items.answers] == [PLAIN, PLAIN]


def test_what_was_left_out_is_counted_by_form_and_reason(file):
    name = file(row(), row("- a\n- b"), row("One."), row("Two."))
    items = load_items(f"{name}#formatting")
    assert len(items) == 1
    assert items.about["not manipulated"] == (
        "formatting 2 (a single sentence), 1 (already Markdown)"
    )
    assert items.dropped["to which no manipulation applies"] == 3


def test_a_form_that_fits_nothing_is_an_error_where_it_was_asked_for_by_name(file):
    name = file(row("- a\n- b"), row("One."))
    with pytest.raises(DataError, match=r"found none of 2: 1 \(already Markdown\), 1 \(a single"):
        load_items(f"{name}#formatting,length")
    items = load_items(f"{name}#all")
    assert "formatting" not in set(items.comparisons["subset"])
    assert "formatting" not in items.about["manipulated"]
    with pytest.raises(DataError, match=r"known form.*'markdown'.*Known: all, authority"):
        load_items(f"{name}#markdown")


def test_the_limit_is_of_items_and_pieces_are_of_the_whole(file):
    name = f"{file(*(row(f'Number {k}. ' + PLAIN) for k in range(9)))}#length"
    assert len(load_items(name, limit=4)) == 4
    pieces = list(stream_items(name, size=4))
    assert [len(piece) for piece in pieces] == [4, 4, 1]
    assert [each for piece in pieces for each in piece.answers] == load_items(name).answers


@pytest.mark.parametrize(
    ("name", "own", "forms"),
    [
        ("file:a.jsonl#length", "file:a.jsonl", ("length",)),
        ("file:a#b.jsonl#length,all", "file:a#b.jsonl", ("length", "all")),
        ("file:a#b.jsonl", "file:a#b.jsonl", ()),
        ("file:a#b/c", "file:a#b/c", ()),
        ("hh-rlhf/harmless-base#self-praise", "hh-rlhf/harmless-base", ("self-praise",)),
        ("llmbar", "llmbar", ()),
    ],
)
def test_a_name_ends_in_the_forms_that_it_asks_for(name, own, forms):
    assert manipulated.split(name) == (own, forms)
    assert not forms or manipulated.joined(own, forms) == name


def test_a_set_of_pairs_of_our_own_can_be_manipulated_too():
    items = load_items("stimuli/holistic#authority", limit=3)
    assert len(items) == 3 and set(items.comparisons["subset"]) == {"authority"}


def test_no_text_is_in_a_kept_run(file, tmp_path, write_tiny):
    from lib.extraction import load_run, save_run

    secret = "Zanzibar's quokka hums. It does so at dusk. Nobody minds."
    items = load_items(f"{file(row(secret, 'Whose quokka is it?'))}#all")
    write_tiny.write_classifier(tmp_path / "model", max_position_embeddings=4096)
    model = load_model(str(tmp_path / "model"), device="cpu")
    save_run(extract(model, items, store=tmp_path / "states"), tmp_path / "run")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert b"quokka" not in kept.lower() and b"Zanzibar" not in kept
    assert b"nobody minds" not in kept.lower()
    found = load_run(tmp_path / "run")
    assert found.attrs["about"]["manipulated"].startswith("one response of each item, by length")
    assert set(comparisons(found)["subset"]) == set(items.comparisons["subset"])
    assert np.isfinite(found["score"].values).all()


# ---- What is said of planted rewards ----


@pytest.mark.parametrize(
    ("reward", "paid"),
    [
        (measures.formatting, {"formatting"}),
        (measures.is_refusal, {"refusal"}),
        (lambda text: 0.0, set()),
    ],
    ids=["markdown", "refusal", "none"],
)
def test_a_planted_reward_is_named_on_manipulated_responses(reward, paid):
    from lib.analyses.exploits import stats
    from lib.planted.worlds import make_run

    items = load_items("stimuli/holistic#all")
    table, texts = items.comparisons, items.responses["text"]
    generator = np.random.default_rng(0)
    noise = generator.standard_normal(len(texts)) * 0.3
    score = np.asarray([2.0 * reward(text) for text in texts]) + noise
    pairs = table[["better", "worse"]].to_numpy().ravel()
    run = make_run(
        score[pairs][:, None],
        prompt=items.item_of_response[table["better"]],
        subset=table["subset"].tolist(),
        criterion=table["criterion"].tolist(),
    )
    judged = stats.judged(run).set_index("axis")["verdict"]
    assert set(judged.index[judged == stats.PAYS]) == paid
    assert stats.PENALISES not in set(judged)
