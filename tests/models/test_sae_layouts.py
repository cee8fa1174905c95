"""Autoencoders of SAELens and sparsify are read as those packages compute them.

The packages are no dependency. To compare with them, unpack their wheels into a folder, with what
they need, and name it::

    python -m pip download --no-deps eai-sparsify sae-lens einops natsort … && unzip -d FOLDER *.whl
    SAE_PACKAGES=FOLDER python -m pytest tests/models/test_sae_layouts.py
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from safetensors.numpy import save_file

from lib.errors import ModelError
from lib.models import sae_layouts
from lib.models.sae import SAE, Reward

PACKAGES = os.environ.get("SAE_PACKAGES", "")
D, M, K = 6, 11, 7  # of 11 latents so many that some of the largest are below 0


@pytest.fixture
def made():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=s).astype(np.float32) for s in ((M, D), (D, M), D, M)]
    return SAE(*parts, k=K)


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(40, D)).astype(np.float32)


def by_hand(w_enc, b_enc, w_dec, b_dec, x, taken_off=True, rescaled=False):
    """The k largest pre-activations that are positive, and x̂; matrices as (latents, features)."""
    z, rebuilt = np.zeros((len(x), M)), np.zeros((len(x), D))
    norm = np.array([sum(row**2) ** 0.5 for row in w_dec.astype(float)])
    for n, row in enumerate(x.astype(float)):
        pre = [sum(w_enc[i] * (row - b_dec * taken_off)) + b_enc[i] for i in range(M)]
        pre = [p * norm[i] if rescaled else p for i, p in enumerate(pre)]
        for i in sorted(range(M), key=lambda i: -pre[i])[:K]:
            z[n, i] = max(pre[i], 0)
        rebuilt[n] = b_dec + sum(
            z[n, i] * w_dec[i] / (norm[i] if rescaled else 1) for i in range(M)
        )
    return z, rebuilt


def check(found: SAE, expected, x):
    z, rebuilt = expected
    np.testing.assert_allclose(found.encode(x).dense(), z, atol=1e-5)
    np.testing.assert_allclose(found.reconstruct(x), rebuilt, atol=1e-5)


def test_sparsify(made, x, tmp_path):
    found = sae_layouts.read(sae_layouts.write_sparsify(made, tmp_path))
    arrays = made.encoder, made.latent_bias, made.decoder.T, made.pre_bias
    check(found, by_hand(*arrays, x), x)


@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("taken_off", [False, True])
def test_saelens(made, x, tmp_path, taken_off, rescaled):
    sae_layouts.write_saelens(made, tmp_path)
    tiny.edit(
        tmp_path / "cfg.json",
        apply_b_dec_to_input=taken_off,
        rescale_acts_by_decoder_norm=rescaled,
    )
    arrays = made.encoder, made.latent_bias, made.decoder.T, made.pre_bias
    check(sae_layouts.read(tmp_path), by_hand(*arrays, x, taken_off, rescaled), x)


def test_their_relu_moves_scores_of_those_texts_that_have_too_few_positive_latents(made, x):
    theirs = replace(made, rectified=True)
    pre = made.pre(x)
    few = (pre > 0).sum(axis=1) < K
    assert 0 < few.mean() < 1 and made.below_zero(x) == pytest.approx(few.mean())
    weight = np.linspace(1, 2, M).astype(np.float32)
    one, other = (Reward(each, weight, True).read(x) for each in (made, theirs))
    np.testing.assert_array_equal(one != other, few)


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"activation": "groupmax"}, 'activation "topk"'),
        ({"transcode": True}, "transcode false"),
        ({"k": None}, "k in"),
        ({"k": 12}, "k from 1 to 11"),
    ],
)
def test_other_kinds_are_told(made, tmp_path, changes, told):
    sae_layouts.write_sparsify(made, tmp_path)
    tiny.edit(tmp_path / "cfg.json", **changes)
    with pytest.raises(ModelError, match=told):
        sae_layouts.read(tmp_path)


def test_tensors_that_do_not_fit_are_told(made, tmp_path):
    with pytest.raises(ModelError, match="found none"):
        sae_layouts.read(tmp_path)
    sae_layouts.write_sparsify(made, tmp_path)
    save_file({"W_dec": np.zeros((2, 2), np.float32)}, tmp_path / "sae.safetensors")
    with pytest.raises(ModelError, match="encoder.weight"):
        sae_layouts.read(tmp_path)


needs_packages = pytest.mark.skipif(
    not PACKAGES, reason="SAE_PACKAGES doesn't name unpacked packages, the oracles"
)


@needs_packages
def test_against_sparsify(made, x, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(PACKAGES)
    monkeypatch.setenv("SPARSIFY_DISABLE_TRITON", "1")
    coder = pytest.importorskip("sparsify").SparseCoder
    theirs = coder.load_from_disk(sae_layouts.write_sparsify(made, tmp_path))
    with torch.no_grad():
        value, index, _ = theirs.encode(torch.from_numpy(x))
        rebuilt = theirs.decode(value, index).numpy()
    z = np.zeros((len(x), M), np.float32)
    np.put_along_axis(z, index.numpy(), value.numpy(), axis=1)
    check(sae_layouts.read(tmp_path), (z, rebuilt), x)


@needs_packages
@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("taken_off", [False, True])
def test_against_saelens(made, x, tmp_path, monkeypatch, taken_off, rescaled):
    monkeypatch.syspath_prepend(PACKAGES)
    package = pytest.importorskip("sae_lens")
    sae_layouts.write_saelens(made, tmp_path)
    tiny.edit(
        tmp_path / "cfg.json",
        apply_b_dec_to_input=taken_off,
        rescale_acts_by_decoder_norm=rescaled,
    )
    theirs = package.SAE.load_from_disk(str(tmp_path))
    with torch.no_grad():
        z = theirs.encode(torch.from_numpy(x))
        rebuilt = theirs.decode(z)
    check(sae_layouts.read(tmp_path), (z.numpy(), rebuilt.numpy()), x)
