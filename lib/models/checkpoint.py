"""A released checkpoint: its configuration, its tensors, its backbone and tokenizer.

Only JSON, safetensors and the tokenizer's files are read. No pickle is opened and no code
that came with a checkpoint is run, whatever its configuration asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

from lib import hub
from lib.errors import ModelError
from lib.models import backbone as backbones
from lib.models import files

# What a reward model keeps of the language model that it was: an output layer.
LEFT_OVER = re.compile(r"(lm_head|embed_out)\.(weight|bias)")


@dataclass(frozen=True)
class Checkpoint:
    """Files of one released model.

    ``config`` is ``config.json`` as it stands; ``files``, ``stray`` and ``weights_note`` are
    what ``lib.models.files.tensors`` found.
    """

    folder: Path
    name: str
    config: Mapping
    files: Mapping[str, Path]
    stray: bool = False
    weights_note: str = ""

    def array(self, key: str) -> np.ndarray:
        """One tensor, as float32; a ``ModelError`` when it isn't there or isn't finite."""
        if key not in self.files:
            raise ModelError(
                f"tensor {key} in the checkpoint of {self.name}",
                "none",
                "Download it again, or load a model that has this head.",
            )
        with safe_open(self.files[key], framework="pt") as file:
            values = file.get_tensor(key).float().numpy()
        if not np.isfinite(values).all():
            raise _not_finite(self.name, key)
        return values

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors, each read where ``files`` says."""
        found = {}
        for path in sorted(set(self.files.values())):
            with safe_open(path, framework="pt") as file:
                keys = (key for key, place in self.files.items() if place == path)
                found |= {key: file.get_tensor(key) for key in keys}
        return found

    @property
    def labels(self) -> dict[int, str]:
        """``id2label`` in the order of its indices; empty without one that can be read."""
        try:
            labels = {int(key): str(label) for key, label in self.config["id2label"].items()}
        except (KeyError, AttributeError, ValueError):
            return {}
        return dict(sorted(labels.items()))

    @property
    def revision(self) -> str:
        """The commit, for a snapshot in the hub's cache; empty elsewhere."""
        return self.folder.name if self.folder.parent.name == "snapshots" else ""

    @property
    def architecture(self) -> str:
        """The class that the configuration names; empty without one."""
        return next(iter(self.config.get("architectures") or ()), "")[:80]

    @property
    def left_over(self) -> list[str]:
        """Keys of a language model's output layer, which no score passes."""
        return sorted(key for key in self.files if LEFT_OVER.fullmatch(key))

    @property
    def note(self) -> str:
        """What of the weights is not read, and why."""
        left = self.left_over
        unread = f"{', '.join(left)}: left from a language model, not read." if left else ""
        return " ".join(filter(None, [self.weights_note, unread]))

    @property
    def card(self) -> dict:
        """What the page about the model shows of the checkpoint itself."""
        card = {"model": self.name, "architecture": self.architecture or "unknown"}
        return card | ({"revision": self.revision} if self.revision else {})


def open_checkpoint(folder: Path, name: str) -> Checkpoint:
    """Read the configuration, and which file holds which tensor; errors as in ``files``."""
    config = files.configuration(folder, name)
    held, stray, note = files.tensors(folder, name, config)
    files.check_sizes(config, name, len(held))
    return Checkpoint(folder, name, config, held, stray, note)


def download(name: str, revision: str | None = None) -> Path:
    """The folder of a hub id: fetched, or as it lies in the hub's cache.

    Of the weights only those that are read, by the rule of ``lib.models.files``. A
    ``ModelError`` when it can be had from neither, or has no weights that are read here.
    """
    return hub.snapshot(name, revision=revision, first=files.CONFIG, choose=partial(_wanted, name))


def _wanted(name: str, sizes: Mapping[str, int], fetch: Callable[[str], Path]) -> Collection[str]:
    """The paths of a released model's repository that loading reads."""
    top = sorted(path for path in sizes if "/" not in path)
    if files.ADAPTER in top:
        return [files.ADAPTER]
    if files.CONFIG not in top:
        raise ModelError(
            f"{files.CONFIG} of {name} on the hub",
            _listed(top) if top else "no files",
            "Name the repository of a released model in transformers' layout.",
        )
    config = files.read(fetch(files.CONFIG).parent, files.CONFIG, name)
    weights = {path for path in top if path.endswith(".safetensors")}
    pickled = [path for path in top if path.endswith((".bin", ".pt", ".pth"))]
    if pickled and not weights:
        raise ModelError(
            f"weights of {name} as safetensors",
            f"only {_listed(pickled)}, a pickle, which can run code when it is opened",
            "Convert it to safetensors where you trust it and give the folder, or ask its "
            "authors to publish safetensors.",
        )
    source = files.chosen(config, top, name)
    if source.endswith(".index.json"):
        weights &= set(files.shards(fetch(source).parent, source, name).values())
    elif source in weights:
        weights = {source}
    return weights | {path for path in top if path.endswith((".json", ".jinja", ".model", ".txt"))}


def load_config(checkpoint: Checkpoint):
    """The configuration as transformers reads it, for its own attention kernels.

    A configuration may name a kernel of its own, which transformers would fetch: it never
    comes to that. A ``ModelError`` for one that isn't read without remote code.
    """
    from transformers import AutoConfig

    with _by_transformers(
        f"a {files.CONFIG} of {checkpoint.name} that transformers reads without remote code",
        "Check it against the release of the model.",
    ):
        config = AutoConfig.from_pretrained(checkpoint.folder, trust_remote_code=False)
        config.get_text_config().to_dict()  # a plain mapping where the class has no such part
    config._attn_implementation = config._experts_implementation = None
    return config


def load_backbone(
    checkpoint: Checkpoint,
    config,
    heads: Collection[str],
    *,
    dtype: torch.dtype,
    device_map: str | Mapping,
    unread: Collection[str] = (),
) -> torch.nn.Module:
    """The transformer of a checkpoint, frozen, whole and finite.

    Parameters
    ----------
    checkpoint
        Its backbone's keys start with ``model.``, or with the prefix that transformers
        gives that architecture.
    config
        As ``load_config`` returns it.
    heads
        Keys that belong to the reward head.
    dtype
        Of the weights in memory.
    device_map
        As in transformers: ``{"": "cuda:1"}``, ``"auto"``, ….
    unread
        Of the transformer's own weights, those that may be missing: nothing reads them.

    Raises
    ------
    ModelError
        For an architecture that needs remote code, missing or unexpected weights, weights
        that aren't finite, or GPUs too small to hold them all.
    """
    from transformers import AutoModel

    name = checkpoint.name
    # Only an architecture whose own prefix is another needs this; the rest are unharmed.
    prefixed = any(key.startswith("model.") for key in checkpoint.files)
    source, kind, options = checkpoint.folder, AutoModel, {"trust_remote_code": False}
    with _by_transformers(
        f"a backbone of {name} that transformers loads without remote code",
        "Check config.json against the weights; where memory is short, try "
        "dtype='bfloat16' or device_map='auto'.",
    ):
        if checkpoint.stray:  # transformers reads shards whole, whatever their index says
            with torch.device("meta"):
                kind = type(AutoModel.from_config(config))
            source, options = None, {"state_dict": checkpoint.tensors()}
        module, report = kind.from_pretrained(
            source,
            config=config,
            use_safetensors=True,
            key_mapping={r"^model\.": ""} if prefixed else None,
            dtype=dtype,
            device_map=device_map,
            attn_implementation=None,
            experts_implementation=None,
            output_loading_info=True,
            **options,
        )
    unexpected = set(report["unexpected_keys"]) - {*heads, *checkpoint.left_over}
    for kind, wrong in (
        ("no missing backbone weights", set(report["missing_keys"]) - {*unread}),
        ("no weights but backbone and head", unexpected),
    ):
        if wrong:
            raise ModelError(
                f"{kind} in the checkpoint of {name}",
                _listed(wrong),
                "Download it again, or check that config.json belongs to these weights.",
            )
    for key, parameter in module.named_parameters():
        if parameter.is_meta:
            raise ModelError(
                f"GPU memory for all weights of {name}",
                f"{key} put off to CPU or disk",
                "Use more GPUs or dtype='bfloat16', or device='cpu'.",
            )
        low, high = torch.aminmax(parameter.detach())
        if not (torch.isfinite(low) and torch.isfinite(high)):
            raise _not_finite(name, key)
    return module.eval().requires_grad_(False)


def load_tokenizer(checkpoint: Checkpoint, config):
    """The tokenizer; a ``ModelError`` when it isn't there, is damaged, or needs remote code."""
    from transformers import AutoTokenizer

    with _by_transformers(
        f"the tokenizer of {checkpoint.name} in {checkpoint.folder}",
        "Put the tokenizer's files (tokenizer.json, tokenizer_config.json) there.",
    ):
        return AutoTokenizer.from_pretrained(
            checkpoint.folder, config=config, trust_remote_code=False
        )


@contextmanager
def _by_transformers(needed: str, remedy: str) -> Iterator[None]:
    """Inside, transformers says nothing, and an error of its many kinds is a ``ModelError``."""
    try:
        with backbones.quiet():
            yield
    except Exception as error:
        whole = Exception(" ".join(str(error).split()) or "no message")
        found = f"{type(error).__name__}: {hub.said(whole)}"
        raise ModelError(needed, found, remedy) from None


def _not_finite(name: str, key: str) -> ModelError:
    return ModelError(
        f"finite weights of {name}",
        f"NaN or infinity in {key}",
        "Download it again; in float16 try dtype='bfloat16' or 'float32'.",
    )


def _listed(keys: Collection[str]) -> str:
    shown = sorted(key[:80] for key in keys)
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return ", ".join(shown[:5]) + more
