"""What lies in a checkpoint's folder: its JSON, of the right shape, and which file holds what.

One rule says where every tensor is read, a head's as well as a backbone's, and it is
transformers' own: the file that ``transformers_weights`` of the configuration names, else
``model.safetensors``, else the shards of the index. An index is obeyed tensor by tensor.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from lib import documents
from lib.errors import ModelError, readable

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TEMPLATE = "chat_template.jinja"
ADAPTER = "adapter_config.json"  # of peft
# Of layers, and of experts, heads, labels …: more would be made before any weight is looked at.
FEW, MOST = 1_000, 100_000
NAME = 250  # characters of a file's name
COUNT = re.compile(r"(num|n)_(?!positions|ctx|embd|inner).*|(encoder|decoder)_layers")

_special = [f"{kind}_token" for kind in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]
TOKENS = dict.fromkeys(_special, str | dict[str, Any] | None)
# Types of what is read here, and of what transformers reads without saying which field it was.
FIELDS: Mapping[str, Mapping[str, Any]] = {
    CONFIG: {
        "architectures": list[str] | None,
        "model_type": str,
        "id2label": dict[str, str | int] | None,
        "label2id": dict[str, Any] | None,
        "num_labels": int | None,
        "problem_type": str | None,
        "max_position_embeddings": int | None,
        "num_hidden_layers": int | None,
        "hidden_size": int | None,
        "vocab_size": int | None,
        "pad_token_id": int | None,
        "layer_types": list[str] | None,
        "rope_parameters": dict[str, Any] | None,
        "rope_scaling": dict[str, Any] | None,
        "text_config": dict[str, Any] | None,
        "quantization_config": dict[str, Any] | None,
        "transformers_weights": str | None,
    },
    "generation_config.json": {},
    "tokenizer_config.json": {
        "tokenizer_class": str | None,
        "chat_template": str | list[dict[str, str]] | None,
        "model_max_length": float | None,
        "added_tokens_decoder": dict[str, dict[str, Any]] | None,
        "additional_special_tokens": list[Any] | None,
        "extra_special_tokens": list[Any] | dict[str, Any] | None,
        **TOKENS,
    },
    "special_tokens_map.json": TOKENS,
    "added_tokens.json": {},
    "chat_template.json": {"chat_template": str},
    INDEX: {"weight_map": dict[str, str]},
}


@dataclass(frozen=True)
class Tensors:
    """Which file holds which tensor.

    Attributes
    ----------
    files
        The file of each tensor, by the tensor's key.
    stray
        Do the shards hold a tensor that their index sends elsewhere, or doesn't name?
    note
        Which weights of the folder are not read; empty when all are.
    """

    files: Mapping[str, Path]
    stray: bool = False
    note: str = ""


def read(folder: Path, file: str, name: str) -> dict:
    """A JSON file of a checkpoint, its fields of their types.

    Raises
    ------
    ModelError
        Names the file and, for one of a wrong type, the field.
    """
    kind = FIELDS[INDEX] if file.endswith(".index.json") else FIELDS.get(file, {})
    return documents.read_json(
        folder / file, what=f"{file} of {name}", error=ModelError, fields=kind
    )


def configuration(folder: Path, name: str) -> dict:
    """``config.json``, once all that transformers will read beside it is seen to be sound.

    Raises
    ------
    ModelError
        For a file that isn't there, is no regular file, or has a wrong shape; for an adapter.
    """
    with readable("folder", folder, ModelError):
        for path in sorted(folder.iterdir()):
            # Reading a pipe would wait for ever. A broken link is a file that isn't there.
            kind = stat.S_IFMT(path.stat().st_mode) if path.exists() else stat.S_IFREG
            if kind not in (stat.S_IFREG, stat.S_IFDIR):
                raise ModelError(
                    f"regular files in {folder}, the folder of {name}",
                    f"{path.name!r}, which is none",
                    documents.REMEDY,
                )
        present = [file for file in FIELDS if (folder / file).is_file()]
        adapter = (folder / ADAPTER).is_file()
    if adapter:
        base = read(folder, ADAPTER, name).get("base_model_name_or_path")
        raise ModelError(
            f"all weights of {name}",
            f"{ADAPTER}: an adapter (LoRA) that changes those of {str(base)[:80]!r}",
            "Merge it into its base, which peft does: model.merge_and_unload(), then "
            "save_pretrained with the tokenizer; and name that folder.",
        )
    if (folder / TEMPLATE).is_file():
        documents.read_bytes(
            folder / TEMPLATE, what=f"{TEMPLATE} of {name}", error=ModelError, limit=1 << 20
        )
    for file in present:
        if file not in (CONFIG, INDEX):
            read(folder, file, name)
    return read(folder, CONFIG, name)


def tensors(folder: Path, name: str, config: Mapping) -> Tensors:
    """Which file holds which tensor.

    Raises
    ------
    ModelError
        For a missing or damaged file, weights that are only there as pickle, an index that
        points out of the folder, or one that names what its shard lacks.
    """
    with readable("folder", folder, ModelError):
        present = [file for file in (WEIGHTS, INDEX) if (folder / file).is_file()]
    chosen = config.get("transformers_weights") or (present or [WEIGHTS])[0]
    if not chosen.endswith(".index.json"):
        files = dict.fromkeys(_keys(folder, chosen, name), folder / chosen)
        left = [file for file in present if file != chosen]
        note = (
            f"The folder has {left[0]} too, which is not read: its weights are those of "
            f"{chosen}, as in transformers."
            if left
            else ""
        )
        return Tensors(files, note=note)
    listed = _listed(folder, chosen, name)
    held = {shard: _keys(folder, shard, name) for shard in sorted(set(listed.values()))}
    lacking = sorted(key for key, shard in listed.items() if key not in held[shard])
    if lacking:
        raise ModelError(
            f"tensor {lacking[0]} of {name} in {listed[lacking[0]]}, as {chosen} says",
            f"none ({len(lacking)} such)",
            "Download it again, with every shard that its index lists.",
        )
    stray = any(listed.get(key) != shard for shard, keys in held.items() for key in keys)
    files = {key: folder / shard for key, shard in listed.items()}
    note = f"Only what {chosen} lists of its shards is read." if stray else ""
    return Tensors(files, stray, note)


def _listed(folder: Path, index: str, name: str) -> dict[str, str]:
    found = read(folder, index, name)
    if "weight_map" not in found:
        raise ModelError(f"a weight_map in {index} of {name}", "none", "Download the index again.")
    return found["weight_map"]


def _keys(folder: Path, file: str, name: str) -> set[str]:
    path = folder / file[:NAME]
    if Path(file).name != file or len(file) > NAME or not path.is_file():
        pickled = sorted(p.name for p in folder.glob("*.bin"))
        raise ModelError(
            f"weights of {name} at {path}",
            f"only {pickled[0]}, a pickle" if pickled else "no such file",
            "Convert it to safetensors where you trust it."
            if pickled
            else "Download it again, with every shard that its index lists.",
        )
    try:
        with safe_open(path, framework="pt") as opened:
            return set(opened.keys())
    except (SafetensorError, OSError) as error:
        raise ModelError(f"safetensors at {path}", str(error), "Download the file again.") from None


def check_sizes(config: Mapping, name: str, held: int) -> None:
    """Raise for numbers of layers, experts, … that would be made before weights are looked at.

    Parameters
    ----------
    config
        ``config.json``.
    name
        Of the model, for messages.
    held
        Tensors of the checkpoint: no layer has none.
    """
    for key, count in _counts(config):
        most = max(held, FEW) if key.endswith(("layer", "layers")) else MOST
        if count > most:
            raise ModelError(
                f"at most {most:,} as {key} in {CONFIG} of {name}, which has {held} tensors",
                documents.shown(count),
                "Check that config.json belongs to these weights.",
            )


def _counts(config: Mapping) -> Iterator[tuple[str, int]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _counts(value)
        elif type(value) is int and COUNT.fullmatch(key):
            yield key, value
