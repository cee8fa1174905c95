"""A reward model audited while it is trained: logged under its names, and training goes on alike."""

from __future__ import annotations

import gc
import json
import tomllib
import weakref
from importlib import metadata

import numpy as np
import pytest
import torch

from lib import callback, paths
from lib.analyses.exploits.worlds import text_world
from lib.callback import PREFIX, RewardAudit
from lib.check.lines import Checked
from lib.errors import ParameterError
from lib.planted.worlds import from_gaps
from lib.stats.winrates import validity

ROWS = [
    {"prompt": f"What is {k}?", "chosen": f"It is {k}. You can count it.", "rejected": f"No {k}."}
    for k in range(12)
]
PINNED = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]["trl"]


@pytest.fixture
def held_out(tmp_path):
    path = tmp_path / "held_out.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS[:8]))
    return f"file:{path}"


@pytest.fixture
def trained(tmp_path, write_tiny):
    """A tiny classifier to train, with its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    write_tiny.write_classifier(tmp_path / "tiny", max_position_embeddings=4096)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tiny")
    return model, AutoTokenizer.from_pretrained(tmp_path / "tiny")


def options(folder, **more) -> dict:
    given = {"output_dir": str(folder), "max_steps": 4, "per_device_train_batch_size": 2}
    given |= {"use_cpu": True, "report_to": "none", "save_strategy": "no", "logging_steps": 2}
    given |= {"learning_rate": 1e-3, "seed": 3, "disable_tqdm": True}
    return given | more


def conversations() -> list[dict]:
    def turn(role, text):
        return [{"role": role, "content": text}]

    return [
        {"prompt": turn("user", row["prompt"])}
        | {side: turn("assistant", row[side]) for side in ("chosen", "rejected")}
        for row in ROWS
    ]


@pytest.fixture
def reward_trainer(trained, tmp_path):
    """trl's own, as the extra pins it."""
    pytest.importorskip(
        "trl", reason=f"needs {PINNED[0]}, an extra: pip install --no-deps {PINNED[0]}"
    )
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    def make(**more):
        model, tokenizer = trained
        config = RewardConfig(**options(tmp_path / "out", max_length=None, **more))
        rows = Dataset.from_list(conversations())
        return RewardTrainer(
            model=model, args=config, processing_class=tokenizer, train_dataset=rows
        )

    return make


@pytest.fixture
def plain_trainer(trained, tmp_path):
    """Transformers' own, with the pairs' loss: nothing of trl."""
    from transformers import Trainer, TrainingArguments

    class Pairs(Trainer):
        def compute_loss(self, model, inputs, **given):
            score = model(**inputs).logits[:, 0]
            return -torch.nn.functional.logsigmoid(score[::2] - score[1::2]).mean()

    def make(**more):
        model, tokenizer = trained
        model.config.pad_token_id = tokenizer.pad_token_id = tokenizer.pad_token_id or 0

        def collated(rows):
            texts = [
                tokenizer.apply_chat_template([*row["prompt"], *row[side]], tokenize=False)
                for row in rows
                for side in ("chosen", "rejected")
            ]
            return dict(
                tokenizer(texts, padding=True, return_tensors="pt", add_special_tokens=False)
            )

        arguments = TrainingArguments(
            **options(tmp_path / "out", remove_unused_columns=False, **more)
        )
        return Pairs(
            model, arguments, collated, train_dataset=conversations(), processing_class=tokenizer
        )

    return make


def audits(trainer) -> dict[int, dict]:
    """What stands in the trainer's log under the names of an audit, by step."""
    return {
        entry["step"]: {name for name in entry if name.startswith(PREFIX)}
        for entry in trainer.state.log_history
        if any(name.startswith(PREFIX) for name in entry)
    }


def checks(trainer, data) -> None:
    """Trains with an audit every other step, and looks at all that it logged."""
    audit = RewardAudit(trainer, data, every=2, exploits=f"{data}#length,self-praise")
    trainer.add_callback(audit)
    trainer.train()
    assert list(audits(trainer)) == list(audit.found) == [2, 4]
    names = {"check/right", "check/wrong", "accuracy", "accuracy_low", "accuracy_high"}
    names |= {"accuracy_prompts", "exploits/pays_for", "exploits/penalised"}
    names |= {
        f"exploits/{axis}/{name}"
        for axis in ("length", "self-praise")
        for name in ("win_rate", "low", "high", "shift")
    }
    for step, found in audit.found.items():
        assert set(found) == audits(trainer)[step] == {f"{PREFIX}{name}" for name in names}
        assert found[f"{PREFIX}accuracy_prompts"] == 8
        ends = [found[f"{PREFIX}accuracy{end}"] for end in ("_low", "", "_high")]
        assert ends == sorted(ends) and found[f"{PREFIX}check/right"] > 0
    assert audit.found[2] != audit.found[4], "it is the model of that step"


@pytest.mark.slow
def test_an_audit_is_logged_beside_what_trl_logs(reward_trainer, held_out):
    assert f"trl=={metadata.version('trl')}" in PINNED
    trainer = reward_trainer()
    checks(trainer, held_out)
    losses = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 2 and all("accuracy" in entry and "margin" in entry for entry in losses)


@pytest.mark.slow
def test_training_with_trl_goes_on_as_it_would_without(reward_trainer, held_out):
    def weights(audited: bool):
        torch.manual_seed(0)
        trainer = reward_trainer()
        before = {k: v.clone() for k, v in trainer.model.state_dict().items()}
        if audited:
            trainer.add_callback(
                RewardAudit(trainer, held_out, every=1, exploits="", checked=False)
            )
        trainer.train()
        after = {k: v.clone() for k, v in trainer.model.state_dict().items()}
        logged = [entry for entry in trainer.state.log_history if "loss" in entry]
        trainer.model.load_state_dict(before)
        return after, [{k: v for k, v in entry.items() if "time" not in k} for entry in logged]

    (one, told), (other, also) = weights(False), weights(True)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert told == also, "the averages of trl's own metrics are not ended by an audit"


@pytest.mark.slow
def test_any_trainer_of_a_classifier_is_audited(plain_trainer, held_out):
    checks(plain_trainer(), held_out)


def test_the_checkpoints_that_are_kept_are_audited(plain_trainer, held_out):
    trainer = plain_trainer(save_strategy="steps", save_steps=3)
    audit = RewardAudit(trainer, held_out, exploits="", checked=False)
    trainer.add_callback(audit)
    trainer.train()
    assert list(audit.found) == [3, 4]
    assert set(audit.found[3]) == {
        f"{PREFIX}accuracy{end}" for end in ("", "_low", "_high", "_prompts")
    }


REFUSED = {
    "load_model": (ParameterError("a model", "none", "Name one."), "needed a model; found none."),
    "extract": (RuntimeError("CUDA out of memory"), "RuntimeError: CUDA out of memory"),
    "save_pretrained": (OSError(28, "No space left"), "OSError: [Errno 28] No space left"),
}


@pytest.mark.parametrize("where", REFUSED)
def test_an_audit_that_fails_is_told_and_stops_nothing(
    plain_trainer, held_out, monkeypatch, capsys, where
):
    trainer = plain_trainer()
    audit = RewardAudit(trainer, held_out, every=2, exploits="", checked=False)
    error, told = REFUSED[where]

    def refuse(*args, **given):
        raise error

    holder = trainer.model if where == "save_pretrained" else callback
    monkeypatch.setattr(holder, where, refuse)
    trainer.add_callback(audit)
    trainer.train()
    assert trainer.state.global_step == 4
    assert audit.found == {step: {f"{PREFIX}failed": 1.0} for step in (2, 4)}
    assert audits(trainer) == {step: {f"{PREFIX}failed"} for step in (2, 4)}
    assert f"No audit at step 2: {told}" in capsys.readouterr().err


def test_the_model_that_was_checked_is_gone_before_it_is_loaded_to_score(
    plain_trainer, held_out, monkeypatch
):
    audit = RewardAudit(plain_trainer(), held_out, exploits="")
    left = []

    def check(*args, **given):
        model = torch.nn.Linear(1, 1)
        model.__dict__["itself"] = model
        left.append(weakref.ref(model))
        return Checked("", "", 0, False, {}, {}, "", [])

    def load_model(*args, **given):
        assert left[0]() is None
        raise ParameterError("a model", "none", "Name one.")

    monkeypatch.setattr(callback, "check", check)
    monkeypatch.setattr(callback, "load_model", load_model)
    gc.disable()  # else it may be gone by chance
    try:
        with pytest.raises(ParameterError):
            audit.audit("model")
    finally:
        gc.enable()


def test_a_sharded_model_is_audited_at_checkpoints_alone(plain_trainer, held_out):
    trainer = plain_trainer()
    trainer.is_fsdp_enabled = True
    with pytest.raises(ParameterError, match="5 of a sharded model"):
        RewardAudit(trainer, held_out, every=5)
    RewardAudit(trainer, held_out)


def test_accuracy_is_that_of_the_validity_page():
    run = from_gaps(np.random.default_rng(0).normal(0.4, 1, (60, 1)), prompt=np.arange(60) // 2)
    row = validity(run).iloc[0]
    found = callback.accuracy(run)
    expected = row[["win_rate", "low", "high", "prompts"]].tolist()
    assert list(found.values()) == pytest.approx(expected)


def test_a_surface_that_is_paid_for_is_counted():
    found = callback.exploited(text_world("keyword", 3.0, heads=1))
    assert found["exploits/pays_for"] == 1 and found["exploits/penalised"] == 0
    assert found["exploits/keyword/win_rate"] > found["exploits/keyword/low"] > 0.5
    assert len(found) == 9 * 4 + 2
