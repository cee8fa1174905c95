"""Head weights are read without their backbone, and what is missing is said."""

import json

import numpy as np
import pytest
import tiny
import torch
from safetensors.numpy import save_file

from lib import paths
from lib.errors import ModelError
from lib.models import load_model
from lib.models.weights import head_weights


def test_the_embedded_heads_and_the_backbones_gain(embedded):
    found = head_weights("smol-armo")
    assert (found.gain == embedded[0].norm.weight.numpy()).all()
    assert found.weight.shape[1] == len(found.gain) and found.note == ""
    assert (head_weights(str(paths.embedded("smol-armo"))).weight == found.weight).all()


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_a_released_checkpoint(tmp_path, kind):
    tiny.write_armorm(tmp_path, kind=kind)
    found, model = head_weights(str(tmp_path)), load_model(str(tmp_path), device="cpu")
    assert (found.weight == model.weight).all()
    norm = model.backbone.norm
    states = np.random.default_rng(0).standard_normal((1, tiny.D)).astype(np.float32)
    made = norm(torch.from_numpy(states)).detach().numpy()
    # normed states times the gain are what the norm returns
    assert made == pytest.approx(states / np.sqrt((states**2).mean() + 1e-6) * found.gain, abs=1e-3)


def test_a_classifier(tmp_path):
    tiny.write_classifier(tmp_path)
    found = head_weights(str(tmp_path))
    assert found.weight.shape == (1, tiny.D) and found.gain.shape == (tiny.D,)


def test_a_model_that_is_not_here_is_said_and_nothing_is_fetched():
    for name in ("planted", "somebody/model-that-is-not-here"):
        found = head_weights(name)
        assert found.weight is None and found.gain is None
        assert name in found.note


def test_a_damaged_folder_is_an_error(tmp_path):
    (tmp_path / "card.json").write_text("{}")
    with pytest.raises(ModelError, match="a card with heads and split"):
        head_weights(str(tmp_path))


@pytest.mark.parametrize(
    ("weight", "needed"),
    [
        (np.full((1, 576), np.nan), "finite weights"),
        (np.zeros((2, 576)), "1 rows of weights"),
        (np.zeros((1, 575)), "weights of 576 features"),
        (None, "tensors bias, weight"),
    ],
)
def test_a_folder_of_heads_is_checked_as_when_it_is_loaded(tmp_path, weight, needed):
    card = {"heads": [{"name": "a", "source": "b"}], "split": {}}
    (tmp_path / "card.json").write_text(json.dumps(card))
    arrays = {"bias": np.zeros(1, np.float32)}
    if weight is not None:
        arrays["weight"] = weight.astype(np.float32)
    save_file(arrays, tmp_path / "heads.safetensors")
    with pytest.raises(ModelError, match=needed):
        head_weights(str(tmp_path))
