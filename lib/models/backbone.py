"""The embedded backbone, and how any backbone is told from another."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from filelock import FileLock

from lib import documents, paths
from lib.atomic import as_others
from lib.errors import AuditError
from lib.models import files

EMBEDDED = "SmolLM2-135M-Instruct"
END_OF_TURN = "<|im_end|>"
CHECKSUMS = "checksums.json"  # of the files beside it, and of what they were made from
KEPT = {"made_from": str, "files": dict[str, str]}
BLOCK = 1 << 25  # bytes that a thread digests at a time
MOST_THREADS = 16
ATTENTIONS = {"full_attention", "sliding_attention"}
# Of a configuration: where it comes from, what training draws and drops, which outputs are
# asked for, and what its heads are called; heads themselves have a digest of their own.
INERT = re.compile(
    "_name_or_path|_commit_hash|transformers_version|architectures|auto_map|tokenizer_class"
    "|dtype|torch_dtype|use_cache|return_dict|output_attentions|output_hidden_states"
    "|id2label|label2id|num_labels|problem_type|finetuning_task|task_specific_params"
    "|initializer_range|initializer_factor|gradient_checkpointing|dropout|attention_dropout"
    "|hidden_dropout|activation_dropout|classifier_dropout|resid_pdrop|embd_pdrop|attn_pdrop"
    "|hidden_dropout_prob|attention_probs_dropout_prob|summary_first_dropout"
    r"|sarm_\w+|sae4rm_\w+|sae_\w+"  # of SARM: its layers are counted, its head has a digest
    "|num_objectives|gating_temperature|gating_n_hidden|gating_hidden_dim"
)


def load_embedded(device: str = "cpu", dtype: torch.dtype = torch.float32):
    """SmolLM2-135M-Instruct from the package that carries it: ``(transformer, tokenizer)``.

    The quantised file is dequantised once and kept as float32 safetensors in the cache,
    compared with its checksums each time, and made again where it differs. A ``ModelError``
    when the package isn't installed.
    """
    from transformers import AutoModel, AutoTokenizer

    folder = dequantised()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with quiet():
        model = AutoModel.from_pretrained(folder, dtype=dtype)
    return model.to(device).eval().requires_grad_(False), tokenizer


def dequantised() -> Path:
    """The folder of the embedded backbone in float32, made again where it isn't as written."""
    path = files.gguf()
    target = paths.cache() / "backbones" / f"{EMBEDDED}-{path.stat().st_size}"
    made_from = _file_digest(path)
    if _wrong(target, made_from) is None:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if (found := _wrong(target, made_from)) is not None:
            if target.exists():
                warnings.warn(
                    f"The dequantised weights in {target} aren't as they were written ({found}); "
                    f"they are made again from {path.name}.",
                    stacklevel=3,
                )
            _convert(path, target, made_from)
    return target


def _wrong(folder: Path, made_from: str) -> str | None:
    """What of the files of a converted backbone isn't as it was written; ``None`` if all is."""
    try:
        kept = documents.read_json(folder / CHECKSUMS, what="checksums", fields=KEPT)
        if kept["made_from"] != made_from:
            return "made from another file"
        differ = [
            name for name, held in kept["files"].items() if _file_digest(folder / name) != held
        ]
    except (AuditError, OSError, ValueError, KeyError):
        return f"a file is missing, or {CHECKSUMS} can't be read"
    return ", ".join(differ) or None


def _file_digest(path: Path) -> str:
    """The SHA-256 of a file; of one that nobody has written to, a process computes it once."""
    held = path.stat()
    return _digest(path, held.st_ino, held.st_size, held.st_mtime_ns, held.st_ctime_ns)


@functools.lru_cache(maxsize=64)
def _digest(path: Path, *state: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _convert(path: Path, target: Path, made_from: str) -> None:
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}.partial-"))
    try:
        _dequantise(path, partial)
        written = {each.name: _file_digest(each) for each in sorted(partial.iterdir())}
        document = {"made_from": made_from, "files": written}
        (partial / CHECKSUMS).write_text(json.dumps(document, indent=1) + "\n")
        if target.exists():
            shutil.rmtree(target) if target.is_dir() else target.unlink()
        for made in (partial, *partial.iterdir()):
            as_others(made)
        os.replace(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _dequantise(path: Path, folder: Path) -> None:
    """Write a GGUF file's transformer, in float32, and its tokenizer into a folder."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet(), _read_once():
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        model = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32
        )
        # A model read from GGUF calls itself quantised, and then refuses to be saved.
        model.hf_quantizer, model.is_quantized = None, False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def _read_once():
    """A GGUF file is parsed once inside, and its names of tensors are mapped once.

    transformers parses the file for the tokenizer, the configuration and the weights, and asks
    for all names anew with each module: two thirds of the time that a conversion would take.
    """
    import gguf

    names = ("GGUFReader", "get_tensor_name_map")
    were = {name: getattr(gguf, name) for name in names}
    try:
        for name, made in were.items():
            setattr(gguf, name, functools.cache(made))
        yield
    finally:
        for name, made in were.items():
            setattr(gguf, name, made)


@contextlib.contextmanager
def quiet():
    """No progress bars or messages of transformers inside; errors still raise."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)  # it logs what configurations say, as it stands
    logging.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
        logging.enable_progress_bar()


def tree_limit(backbone: torch.nn.Module) -> int:
    """Tokens of the longest sequence for which packing as trees changes no state.

    Packing replaces the attention function, so it suits a transformer that takes its
    attention from transformers' registry and masks nothing but the future. A sliding
    window masks more, but only in sequences longer than itself. Soft-capped attention
    logits (Gemma 2) need a function that knows of the cap: 0, as for layers of any kind
    but attention.
    """
    config = backbone.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ATTENTIONS)
    if (
        not getattr(backbone, "_supports_attention_backend", False)
        or getattr(config, "attn_logit_softcapping", None)
        or not kinds <= ATTENTIONS
    ):
        return 0
    window = getattr(config, "sliding_window", None)
    return window if window and "sliding_attention" in kinds else sys.maxsize


def fingerprint(module: torch.nn.Module) -> dict[str, str]:
    """Digests of the weights (``backbone``) and of the ``configuration``, 16 hex digits each."""
    return {
        "backbone": weights_digest(module.state_dict()),
        "configuration": configuration_digest(module.config),
    }


def weights_digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Sixteen hex digits that identify tensors by every byte, the same on any device.

    SHA-256 of each tensor's name, shape, dtype and of the SHA-256 of its blocks of ``BLOCK``
    bytes, which several threads read, copy and digest one by one.
    """

    def digested(block: torch.Tensor) -> bytes:
        if block.is_cuda:  # into pinned memory, which is ten times as fast
            block = torch.empty_like(block, device="cpu", pin_memory=True).copy_(block)
        return hashlib.sha256(block.cpu().numpy()).digest()

    flat = {name: _bytes(tensor) for name, tensor in sorted(tensors.items())}
    blocks = [block for each in flat.values() for block in each.split(BLOCK)]
    with ThreadPoolExecutor(min(torch.get_num_threads(), MOST_THREADS)) as pool:
        found = pool.map(digested, blocks)
        whole = hashlib.sha256()
        for name, each in flat.items():
            whole.update(f"{name} {tuple(tensors[name].shape)} {tensors[name].dtype}\0".encode())
            for _ in each.split(BLOCK):
                whole.update(next(found))
    return whole.hexdigest()[:16]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def configuration_digest(config) -> str:
    """Sixteen hex digits of all that a configuration says, less what can't move a number.

    ``config`` is as the loaded transformer has it, so what a file leaves out counts as its
    default. What isn't in ``INERT`` counts, a key that nobody here knows too.
    """
    text = json.dumps(_moving(config.to_dict()), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _moving(value):
    if isinstance(value, Mapping):
        return {str(k): _moving(v) for k, v in value.items() if not INERT.fullmatch(str(k))}
    return [_moving(each) for each in value] if isinstance(value, (list, tuple)) else value
