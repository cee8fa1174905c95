"""Sparse autoencoders in the layouts of other packages: read, and written.

==========  ======================  =====================================================
layout      files                   tensors
==========  ======================  =====================================================
sparsify    ``cfg.json``,           ``encoder.weight`` (latents, features),
            ``sae.safetensors``     ``encoder.bias``, ``W_dec`` (latents, features),
                                    ``b_dec``
SAELens     ``cfg.json``,           ``W_enc`` (features, latents), ``b_enc``,
            ``sae_weights.``        ``W_dec`` (latents, features), ``b_dec``
            ``safetensors``
==========  ======================  =====================================================

Both cut z off at 0 (a ReLU before or behind the k largest), which SARM doesn't: an autoencoder
that is read here is ``rectified``. It makes a difference for those tokens alone that have fewer
than k positive pre-activations, of which ``SAE.below_zero`` gives the share: by so many tokens
either package reads an autoencoder of SARM's otherwise than SARM does.

Where b_dec isn't taken off before the encoder, and where pre-activations are in units of the
decoder's norms (SAELens), the same function is written with the biases and scales of
``lib.models.sae``. States are read as they are: an autoencoder of another package that was
trained on states that aren't normalised token by token gives nothing sensible of those that are.

Checked against NumPy, and against the packages themselves where they are at hand, in
``tests/models/test_sae_layouts.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from lib import documents
from lib.errors import ModelError
from lib.models.sae import SAE

CONFIG = "cfg.json"
SPARSIFY, SAELENS = "sae.safetensors", "sae_weights.safetensors"
REMEDY = "Export it again from the package that trained it."
# Of a configuration: what may differ, and must be as read here.
MUST = {
    "activation": ("topk",),
    "architecture": ("topk",),
    "transcode": (False,),
    "skip_connection": (False,),
    "normalize_activations": ("none", None),
    "reshape_activations": ("none", None),
    "activation_fn": ("topk", None),
}


def read(folder: str | Path) -> SAE:
    """An autoencoder from a folder of either layout.

    Raises
    ------
    ModelError
        For a folder of neither, a kind of autoencoder that isn't read here, or tensors that are
        missing or don't fit.
    """
    folder = Path(folder)
    found = [name for name in (SPARSIFY, SAELENS) if (folder / name).is_file()]
    if len(found) != 1:
        raise ModelError(
            f"{SPARSIFY} (sparsify) or {SAELENS} (SAELens) in {folder}",
            " and ".join(found) or "none",
            REMEDY,
        )
    config = documents.read_json(
        folder / CONFIG, what=f"{CONFIG} of an autoencoder", error=ModelError, remedy=REMEDY
    )
    for key, allowed in MUST.items():
        if key in config and config[key] not in allowed:
            raise ModelError(
                f"{key} {documents.shown(allowed[0])} of the autoencoder in {folder}",
                documents.shown(config[key]),
                "Only TopK autoencoders of plain states are read.",
            )
    k = config.get("k", (config.get("activation_fn_kwargs") or {}).get("k"))
    if type(k) is not int:
        raise ModelError(f"k in {folder / CONFIG}", documents.shown(k), REMEDY)
    try:
        tensors = {n: a.astype(np.float32) for n, a in load_file(folder / found[0]).items()}
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise ModelError(f"safetensors at {folder / found[0]}", str(error), REMEDY) from None
    return _sparsify(tensors, k) if found[0] == SPARSIFY else _saelens(tensors, k, config)


def _sparsify(tensors: Mapping[str, np.ndarray], k: int) -> SAE:
    encoder, bias, decoder, b_dec = _checked(
        tensors, ("encoder.weight", "encoder.bias", "W_dec", "b_dec"), False
    )
    return _made(encoder, decoder, b_dec, bias, k)


def _saelens(tensors: Mapping[str, np.ndarray], k: int, config: Mapping[str, Any]) -> SAE:
    encoder, bias, decoder, b_dec = _checked(tensors, ("W_enc", "b_enc", "W_dec", "b_dec"), True)
    if config.get("rescale_acts_by_decoder_norm"):
        norm = np.linalg.norm(decoder, axis=1)
        encoder, bias, decoder = encoder * norm[:, None], bias * norm, decoder / norm[:, None]
    if not config.get("apply_b_dec_to_input", True):
        bias = bias + encoder @ b_dec
    return _made(encoder, decoder, b_dec, bias, k)


def _made(encoder, decoder, b_dec, bias, k: int) -> SAE:
    if not 0 < k <= len(encoder):
        raise ModelError(f"k from 1 to {len(encoder)} of an autoencoder", f"{k}", REMEDY)
    return SAE(encoder, np.ascontiguousarray(decoder.T), b_dec, bias, k, rectified=True)


def _checked(tensors: Mapping[str, np.ndarray], names, transposed: bool) -> list[np.ndarray]:
    """Encoder and decoder as (latents, features), with both biases."""
    if set(names) - set(tensors):
        raise ModelError(
            f"tensors {', '.join(names)} of an autoencoder", ", ".join(sorted(tensors)), REMEDY
        )
    encoder, bias, decoder, b_dec = (tensors[name] for name in names)
    encoder = np.ascontiguousarray(encoder.T) if transposed else encoder
    shape = encoder.shape
    if len(shape) != 2 or (bias.shape, decoder.shape, b_dec.shape) != (shape[:1], shape, shape[1:]):
        shapes = ", ".join(f"{name} {tensors[name].shape}" for name in names)
        raise ModelError("tensors of an autoencoder that fit each other", shapes, REMEDY)
    return [encoder, bias, decoder, b_dec]


def write_sparsify(made: SAE, folder: str | Path) -> Path:
    """Write it as ``SparseCoder.load_from_disk`` reads it; gives the folder."""
    config = {"activation": "topk", "num_latents": made.latents, "k": made.k, "d_in": made.features}
    tensors = {
        "encoder.weight": made.encoder,
        "encoder.bias": made.latent_bias,
        "W_dec": made.decoder.T,
        "b_dec": made.pre_bias,
    }
    return _write(Path(folder), config, tensors, SPARSIFY)


def write_saelens(made: SAE, folder: str | Path, hook: str = "") -> Path:
    """Write it as ``SAE.load_from_disk`` of SAELens reads it; gives the folder.

    ``hook`` names where its states are read, as in ``blocks.15.hook_resid_pre``.
    """
    config = {
        "architecture": "topk",
        "d_in": made.features,
        "d_sae": made.latents,
        "k": made.k,
        "rescale_acts_by_decoder_norm": False,
        "apply_b_dec_to_input": True,
        "normalize_activations": "none",
        "reshape_activations": "none",
        "dtype": "float32",
        "device": "cpu",
        "metadata": {"hook_name": hook},
    }
    tensors = {
        "W_enc": made.encoder.T,
        "b_enc": made.latent_bias,
        "W_dec": made.decoder.T,
        "b_dec": made.pre_bias,
    }
    return _write(Path(folder), config, tensors, SAELENS)


def _write(folder: Path, config: dict, tensors: Mapping[str, np.ndarray], name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({n: np.ascontiguousarray(a, np.float32) for n, a in tensors.items()}, folder / name)
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
    return folder
