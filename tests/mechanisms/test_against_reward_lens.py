"""As published, lens, attribution and patching are those of reward-lens on a tiny Llama.

The package is no dependency. To run these, unpack one of its wheels and name the folder::

    python -m pip download --no-deps reward-lens==2.0.1 && unzip -d FOLDER reward_lens-*.whl
    REWARD_LENS=FOLDER python -m pytest tests/mechanisms/test_against_reward_lens.py
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
import torch

from lib.data.items import Builder
from lib.mechanisms import patching
from lib.mechanisms.tracing import trace
from lib.models import load_model

PACKAGE = os.environ.get("REWARD_LENS", "")
pytestmark = pytest.mark.skipif(
    not PACKAGE, reason="REWARD_LENS doesn't name an unpacked reward-lens, the oracle"
)
PROMPT = "Name three words for beautiful, please."
TEXTS = [("Pretty, lovely, fair.", "No."), ("No.", "Pretty, lovely, fair and then some more.")]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory, write_tiny):
    sys.path.insert(0, PACKAGE)
    model = pytest.importorskip("reward_lens.model")
    folder = tmp_path_factory.mktemp("model")
    write_tiny.write_classifier(folder, kind="llama")
    found = model.RewardModel.from_pretrained(
        str(folder), device="cpu", torch_dtype=torch.float32, trust_remote_code=False
    )
    return found, load_model(str(folder), device="cpu")


def pair(better: str, worse: str):
    builder = Builder("made-up")
    builder.add("item", PROMPT, [better, worse], [(0, 1, "c", "s")])
    return builder.build()


def margins(values) -> np.ndarray:
    return values[0] - values[1]


@pytest.mark.parametrize("texts", TEXTS)
def test_the_lens(theirs, texts, tmp_path):
    from reward_lens.lens import RewardLens

    package, model = theirs
    expected = RewardLens(package).trace(PROMPT, *texts)
    found = trace(model, pair(*texts), store=tmp_path)
    assert margins(found["lens_raw"].values)[:, 0] == pytest.approx(expected.differential, abs=1e-4)
    assert margins(found["score"].values)[0] == pytest.approx(
        expected.reward_preferred - expected.reward_dispreferred, abs=1e-4
    )


@pytest.mark.parametrize("texts", TEXTS)
def test_attribution(theirs, texts, tmp_path):
    from reward_lens.attribution.component import ComponentAttribution

    package, model = theirs
    expected = ComponentAttribution(package).attribute(PROMPT, *texts)
    found = trace(model, pair(*texts), store=tmp_path)
    ours = margins(found["part_raw"].values)[:-1, 0]
    assert ours == pytest.approx(expected.differential_contributions, abs=1e-4)


@pytest.mark.parametrize("mode", ["noising", "denoising", "zero"])
@pytest.mark.parametrize("texts", TEXTS)
def test_patching(theirs, texts, mode):
    from reward_lens.patching import ActivationPatcher

    package, model = theirs
    expected = ActivationPatcher(package).patch_all_components(
        PROMPT, *texts, mode=mode, show_progress=False
    )
    found = patching.patch(
        model,
        pair(*texts),
        modes=[mode],
        alignment=patching.LEFT,
        positions="all",
        sides=["better"],
    )
    # Theirs is what the margin loses, of the layers in the same order.
    ours = -found["effect"].values[0, 0, :-1, 0]
    assert ours == pytest.approx(expected.patch_effects, abs=1e-4)
