"""Scores of token ids as the checkpoint's own class gives them, one text at a time, in float32.

What ``RewardModel.own_scores`` is made of. Transformers loads the checkpoint a second time by its
own rules and runs it as it stands: no packing, no mask, no positions of ours. So what a loader
of this package reads wrongly, a key, a layer, a token, gives another number here.

``classifier``  transformers' class with its own head and its own pooling
``states``      a bare transformer's states, for heads that transformers has no class for
``gate_at``     where such a head's gate reads, found by tokens as the released code finds it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np
import torch

from lib.errors import ModelError
from lib.models import cut
from lib.models.backbone import quiet
from lib.models.prompt import EXAMPLE, EXAMPLE_RESPONSE, PromptFormat


class DrawnError(ModelError):
    """Transformers' own class finds no such weight in the checkpoint, and draws it at random."""


REMEDY = "Check config.json against the weights, or load the release again."


def classifier(
    folder: Path, name: str, device: torch.device, sequences: Sequence[np.ndarray]
) -> np.ndarray:
    """Logits of ``AutoModelForSequenceClassification``, shape (sequences, labels).

    Raises
    ------
    ModelError
        When the class doesn't load; a ``DrawnError`` when it would draw weights at random.
    """
    from transformers import AutoModelForSequenceClassification

    module = _loaded(AutoModelForSequenceClassification, folder, name, device)
    with torch.inference_mode():
        logits = [module(input_ids=ids).logits[0] for ids in _ids(sequences, device)]
    return torch.stack(logits).float().cpu().numpy()


def states(
    folder: Path,
    name: str,
    device: torch.device,
    sequences: Sequence[np.ndarray],
    places: Sequence[Sequence[int]],
) -> np.ndarray:
    """States of ``AutoModel`` at some places of each sequence, (sequences, places, features).

    Raises
    ------
    ModelError
        When the class doesn't load, or would draw weights at random.
    """
    from transformers import AutoModel

    # Heads that transformers has no class for hold their transformer as ``model``.
    module = _loaded(AutoModel, folder, name, device, key_mapping={r"^model\.": ""})
    with torch.inference_mode():
        found = [
            module(input_ids=ids).last_hidden_state[0, list(at)].float().cpu()
            for ids, at in zip(_ids(sequences, device), places, strict=True)
        ]
    return torch.stack(found).numpy()


def layer_states(
    folder: Path, name: str, device: torch.device, sequences: Sequence[np.ndarray], layers: int
) -> list[np.ndarray]:
    """What the layer before the final norm leaves of each sequence, (tokens, features).

    The class is made with so many layers, whatever the configuration says. Errors as of
    ``states``.
    """
    from transformers import AutoModel

    module = _loaded(AutoModel, folder, name, device, layers=layers, key_mapping={r"^model\.": ""})
    heard: list[torch.Tensor] = []
    layer = getattr(module, cut.names(module)[0])[-1]
    layer.register_forward_hook(
        lambda _, __, made: heard.append(made[0] if isinstance(made, tuple) else made)
    )
    with torch.inference_mode():
        for ids in _ids(sequences, device):
            module(input_ids=ids, use_cache=False)
    return [states.reshape(-1, states.shape[-1]).float().cpu().numpy() for states in heard]


def gate_at(format: PromptFormat, ids: np.ndarray) -> int:
    """Where the prompt's last turn is closed, before the header that opens the response.

    At the last place of the tokens of both before the end, as ArmoRM's own code looks for them;
    so a response that holds them itself is read elsewhere.

    Raises
    ------
    ModelError
        Where the template opens a response otherwise here than in the example.
    """
    whole = format.render(EXAMPLE, EXAMPLE_RESPONSE)
    between = whole.partition(EXAMPLE[-1]["content"])[2].rpartition(EXAMPLE_RESPONSE)[0]
    closing = format.render(EXAMPLE, header=False).partition(EXAMPLE[-1]["content"])[2]
    closing = format.tokenize(_common(closing, between))
    ends = np.flatnonzero(closing == format.end_of_turn)
    offset = int(ends[-1]) if len(ends) else len(closing) - 1
    pattern = format.tokenize(between)
    for at in range(len(ids) - len(pattern) - 1, -1, -1):
        if np.array_equal(ids[at : at + len(pattern)], pattern):
            return at + offset
    raise ModelError(
        f"the tokens of {between!r} before a response to {format.name}", "none", REMEDY
    )


def _common(a: str, b: str) -> str:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    return "".join(character for character, _ in same)


def _loaded(
    kind, folder: Path, name: str, device: torch.device, layers: int = 0, **options
) -> torch.nn.Module:
    from transformers import AutoConfig

    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            # A kernel that the configuration names would be fetched.
            config._attn_implementation = config._experts_implementation = None
            if layers:
                cut.shorten(config, layers)
            module, report = kind.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                **options,
            )
    except Exception as error:  # as many kinds as there are models
        told = " ".join(str(error).split())[:200] or "no message"
        raise ModelError(f"{name} in transformers' own class", told, REMEDY) from None
    unread = {f"{cut.names(module)[1]}.{part}" for part in ("weight", "bias")} if layers else set()
    if missing := sorted(set(report["missing_keys"]) - unread):
        raise DrawnError(
            f"every weight that transformers' {type(module).__name__} reads in {name}",
            f"no {', '.join(missing[:3])}, which it draws at random",
            "Save the checkpoint under the keys of its class.",
        )
    return module.to(device).eval()


def _ids(sequences: Sequence[np.ndarray], device: torch.device) -> Iterator[torch.Tensor]:
    for ids in sequences:
        yield torch.from_numpy(np.asarray(ids, np.int64))[None].to(device)
