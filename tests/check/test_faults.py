"""One planted fault a line turns that line red and no other; what stands on it may be blocked."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from lib import load_items
from lib.check import lines, measure, template
from lib.check.subject import encoded
from lib.errors import AuditError
from lib.extraction import parity
from lib.extraction.forward import forward
from lib.models import load_model

SCORED = {"Reading", "Invariance", "Scale"}


def change(folder, edit, file="model.safetensors"):
    """Write a checkpoint's tensors again, as ``edit`` gives them."""
    tensors = edit(load_file(folder / "model.safetensors"))
    save_file(tensors, folder / file, metadata={"format": "pt"})


def row(checked, line, what):
    return next(row for row in checked.rows if (row.line, row.what) == (line, what))


# ---- Head ----


def test_a_missing_head_is_wrong_and_blocks_what_needs_scores(classifier, checked, reds):
    folder = classifier()
    change(folder, lambda held: {k: v for k, v in held.items() if k != "score.weight"})
    found = checked(folder)
    assert reds(found) == ({"Head"}, SCORED)
    assert "score.weight" in row(found, "Head", "tensors").expected
    assert found.unsound == ["Head"]


def test_a_head_in_two_files_that_differ_is_wrong(classifier, checked, reds):
    folder = classifier()
    change(folder, lambda held: {"score.weight": held["score.weight"] * 2}, "more.safetensors")
    found = checked(folder)
    assert reds(found) == ({"Head"}, set())
    assert any("more.safetensors" in row.found for row in found.rows)


def test_a_head_in_two_files_that_agree_is_right(classifier, checked, reds):
    folder = classifier()
    change(folder, lambda held: {"score.weight": held["score.weight"]}, "more.safetensors")
    assert reds(checked(folder)) == (set(), set())


def test_a_backbone_that_lacks_a_layer_is_wrong(classifier, checked, reds):
    folder = classifier()
    change(folder, lambda held: {k: v for k, v in held.items() if ".layers.1." not in k})
    assert reds(checked(folder)) == ({"Head"}, SCORED)


# ---- Reading ----


def test_a_last_token_that_is_the_pad_token_is_read_elsewhere_by_its_class(
    classifier, checked, reds, tiny
):
    pad = tiny.tokenizer().convert_tokens_to_ids(tiny.EOT)
    found = checked(classifier(pad_token_id=pad))
    assert reds(found) == ({"Reading"}, set())
    token = row(found, "Reading", "token").found
    assert "'<|eot_id|>'" in token and "an earlier one" in token and "the last one is fol" in token


def test_a_bias_that_its_class_has_no_room_for_is_seen(classifier, checked, reds):
    folder = classifier()
    change(folder, lambda held: {**held, "score.bias": torch.ones(1)})
    assert reds(checked(folder)) == ({"Reading"}, set())


def test_a_head_under_a_key_that_its_class_would_draw_at_random_is_wrong(classifier, checked, reds):
    folder = classifier()
    change(folder, lambda held: {k.replace("score.", "classifier."): v for k, v in held.items()})
    found = checked(folder)
    assert reds(found) == ({"Reading"}, set())
    assert "draws at random" in row(found, "Reading", "scores").found


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        ("bert", "the first token's state, through a pooler"),
        ("roberta", "the first token's state, through further layers"),
        ("modernbert", "the first token's state or the mean of all"),
    ],
)
def test_an_encoder_is_refused_by_the_name_of_its_pooling(
    kind, pooling, tiny, tmp_path, checked, reds
):
    tiny.tokenizer().save_pretrained(tmp_path)
    config = {"model_type": kind, "hidden_size": 32, "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({"classifier.weight": torch.zeros(1, 32)}, tmp_path / "model.safetensors")
    found = checked(tmp_path)
    assert reds(found) == ({"Reading"}, {"Head", "Invariance", "Scale"})
    assert pooling in row(found, "Reading", "pooling").found


# ---- Template ----


def adding_bos(tiny, template):
    """A tokenizer that puts BOS before plain texts, as Llama's does."""
    from tokenizers import processors

    made = tiny.tokenizer(template)
    number = made.convert_tokens_to_ids(tiny.BOS)
    made._tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{tiny.BOS} $A", special_tokens=[(tiny.BOS, number)]
    )
    return made


def test_a_template_without_the_bos_that_its_tokenizer_adds_is_wrong(
    classifier, checked, reds, tiny
):
    bare = tiny.OPENS_WHEN_ASKED.replace("{{ bos_token }}", "")
    found = checked(classifier(tokens=adding_bos(tiny, bare)))
    assert reds(found) == ({"Template"}, set())
    assert row(found, "Template", "opens").found.endswith("0 times")


def test_the_same_template_with_its_bos_is_right(classifier, checked, reds, tiny):
    found = checked(classifier(tokens=adding_bos(tiny, tiny.OPENS_WHEN_ASKED)))
    assert reds(found) == (set(), set())


def test_two_bos_are_wrong_and_block_what_needs_tokens(classifier, checked, reds, tiny):
    twice = tiny.OPENS_WHEN_ASKED.replace("{{ bos_token }}", "{{ bos_token }}{{ bos_token }}")
    found = checked(classifier(template=twice))
    assert reds(found) == ({"Template"}, SCORED | {"Length"})


def test_a_response_that_is_closed_twice_is_wrong(classifier, checked, reds, tiny):
    twice = tiny.OPENS_WHEN_ASKED.replace("{{ '<|eot_id|>' }}", "{{ '<|eot_id|><|eot_id|>' }}")
    assert reds(checked(classifier(template=twice))) == ({"Template"}, set())


def with_text(tiny, text):
    """A template that writes a text of its own before the first turn."""
    system = "<|start_header_id|>system<|end_header_id|>\n\n" + text + "<|eot_id|>"
    return tiny.OPENS_WHEN_ASKED.replace(
        "{{ bos_token }}", "{{ bos_token + " + repr(system) + " }}"
    )


@pytest.mark.parametrize("day", ["10 Feb 2025", "February 10, 2025", "2025-02-10"])
def test_a_date_that_is_not_the_pinned_one_is_wrong(day, classifier, checked, reds, tiny):
    folder = classifier(template=with_text(tiny, f"Today Date: {day}"))
    found = checked(folder)
    assert reds(found) == ({"Template"}, set())
    assert row(found, "Template", "date").found == "2025-02-10"


def test_the_pinned_date_is_right_and_so_is_a_month_of_knowledge(classifier, checked, reds, tiny):
    text = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024"
    assert reds(checked(classifier(template=with_text(tiny, text)))) == (set(), set())


def test_a_system_prompt_that_differs_from_the_cards_is_wrong(classifier, checked, reds, tiny):
    folder = classifier(template=with_text(tiny, "You are a pirate."))
    tiny.edit(folder / "config.json", system_prompt="You judge answers.")
    assert reds(checked(folder)) == ({"Template"}, set())
    tiny.edit(folder / "config.json", system_prompt="You are a pirate.")
    assert reds(checked(folder)) == (set(), set())


def test_a_templates_own_system_prompt_is_a_note(classifier, checked, reds, tiny):
    found = checked(classifier(template=with_text(tiny, "You are a pirate.")))
    assert reds(found) == (set(), set())
    told = row(found, "Template", "system prompt")
    assert (told.verdict, told.found) == (lines.NOTE, "'You are a pirate.'")


# ---- Invariance ----


def test_bfloat16_with_a_head_of_large_norm_is_wrong(classifier, checked, reds, short):
    folder = classifier()
    model = load_model(str(folder), device="cpu")
    items, tokens = encoded(model.format, load_items(short, limit=12))
    hidden = forward(model.backbone, tokens).hidden  # 24 states
    _, size, along = np.linalg.svd(hidden - hidden.mean(0), full_matrices=True)
    # A thousand along what is the same in all of them, and enough of what differs for sd 20.
    weight = 1000 * along[-1] + 20 * 24**0.5 / size[0] * along[0]
    change(folder, lambda held: {**held, "score.weight": torch.from_numpy(weight)[None]})
    found = checked(folder)
    assert reds(found) == ({"Invariance"}, set())
    assert [row.what for row in found.rows if row.verdict == lines.WRONG] == ["bfloat16"]


@pytest.mark.parametrize(
    ("way", "option", "value"),
    [
        ("padding on the left", "padding_side", "left"),
        ("one batch", "budget", 10**9),
    ],
)
def test_a_batch_that_moves_scores_is_wrong(
    way, option, value, classifier, checked, reds, monkeypatch
):
    from lib.check import subject

    def moved(backbone, items, **how):
        states = forward(backbone, items, **how)
        if how.get(option) == value:
            states.hidden[0] += 1
        return states

    monkeypatch.setattr(subject, "forward", moved)
    found = checked(classifier())
    assert reds(found) == ({"Invariance"}, set())
    assert row(found, "Invariance", way).verdict == lines.WRONG


# ---- Length, Scale ----


def test_a_window_of_32_tokens_is_wrong(classifier, checked, reds):
    found = checked(classifier(max_position_embeddings=32), data="stimuli/controlled")
    assert reds(found) == ({"Length"}, SCORED)
    assert row(found, "Length", "window").found.startswith("24 of 24 texts are longer")


def test_a_constant_head_is_wrong(classifier, checked, reds):
    folder = classifier()
    change(folder, lambda held: {**held, "score.weight": held["score.weight"] * 0})
    assert reds(checked(folder)) == ({"Scale"}, set())


# ---- Reference, Overlap ----


def published(folder, data, limit):
    """RewardBench's layout: a list for each column, of a model's own scores."""
    model = load_model(str(folder), device="cpu")
    items, tokens = encoded(model.format, load_items(data, limit=limit))
    scores = parity.scores(model, tokens, forward(model.backbone, tokens))[:, 0]
    chosen, rejected = scores[items.comparisons["better"]], scores[items.comparisons["worse"]]
    return {
        "id": items.prompts["item"].tolist(),
        "scores_chosen": chosen.tolist(),
        "scores_rejected": rejected.tolist(),
        "results": (chosen > rejected).astype(int).tolist(),
        "model": "somebody's",
    }


def test_a_reference_with_three_scores_of_64_changed_is_wrong(
    classifier, checked, reds, short, tmp_path, monkeypatch
):
    monkeypatch.setattr(template, "costs", lambda subject: ([], []))  # in no line that is asked
    folder, file = classifier(), tmp_path / "results.json"
    held = published(folder, short, 64)
    file.write_text(json.dumps(held))
    options = {"items": 64, "quick": False, "reference": file}
    assert reds(checked(folder, **options)) == (set(), set())
    for number in (3, 20, 41):
        held["scores_chosen"][number] += 2.0
    file.write_text(json.dumps(held))
    found = checked(folder, **options)
    assert reds(found) == ({"Reference"}, set())
    first = [record["item"] for record in found.tables["differences"][:3]]
    assert sorted(first) == sorted(held["id"][number] for number in (3, 20, 41))
    assert len(found.tables["differences"]) == 10
    assert "3 scores differ" in row(found, "Reference", "scores").found


def test_prompts_of_a_training_file_are_wrong(classifier, checked, reds, tmp_path):
    items = load_items("stimuli/controlled", limit=3)
    file = tmp_path / "training.jsonl"
    shouted = [
        [turn | {"content": turn["content"].upper()} for turn in prompt]
        for prompt in items.prompts["prompt"]
    ]
    lines = [{"prompt": prompt, "chosen": "Yes.", "rejected": "No."} for prompt in shouted]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = checked(classifier(), data="stimuli/controlled", training=file)
    assert reds(found) == ({"Overlap"}, set())
    assert row(found, "Overlap", "prompts").found.startswith("of 900 prompts 3 stand there whole")


# ---- What isn't a fault of the model ----


def test_a_model_that_is_not_there_cannot_be_checked(tmp_path):
    with pytest.raises(AuditError, match="a known model"):
        measure.check(str(tmp_path / "none"))
