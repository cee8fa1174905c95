"""From a conversation to tokens, and which of those tokens a reward model reads.

The chat template is rendered to text once and tokenised once, without adding special
tokens: a template writes its own, and a second BOS would move every score. Prompt and
response are never tokenised apart, since tokens can merge across the seam; what responses
of one prompt share is the longest common prefix of their tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lib.errors import ModelError

EXAMPLE = [{"role": "user", "content": "What is the capital of France?"}]
EXAMPLE_RESPONSE = "Paris is the capital of France."
PROBE = "Naïve café,\r\n\tx  = 1234567;  don't STOP\u00a0— 東京 🙂 İ ﬁ e\u0301 <|im_end|>\n\n\n"


class RenderError(ValueError):
    """A chat template refused a conversation; the reason is the message."""


@dataclass(frozen=True)
class EncodedItem:
    """Tokens of one item.

    Attributes
    ----------
    sequences
        For each response, the ids of prompt and response up to the token that is read.
    n_prompt
        Tokens of the rendered prompt with the header that opens a response.
    n_shared
        Length of the longest common prefix of the sequences, short of each one's last
        token; never more than ``n_prompt``.
    gate_at
        Position of the token that closes the prompt's last turn.
    """

    sequences: list[np.ndarray]
    n_prompt: int
    n_shared: int
    gate_at: int

    @property
    def n_tokens(self) -> int:
        """Tokens computed when the shared prefix is computed once."""
        return self.n_shared + sum(len(ids) - self.n_shared for ids in self.sequences)


class PromptFormat:
    """A tokenizer with its chat template.

    Parameters
    ----------
    tokenizer
        A Hugging Face tokenizer that has a chat template.
    name
        Of the model, for error messages.
    end_of_turn
        The token at which a response ends, and whose state is read; what the template
        writes after it is left out. ``None`` reads the very last token of the template.

    Raises
    ------
    ModelError
        Without a chat template, with one that can't render a question and its answer (a
        syntax error in it), or when the tokens would start with two BOS.
    """

    def __init__(self, tokenizer, name: str, end_of_turn: str | None = None):
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"a chat template on the tokenizer of {name}",
                "none",
                "Set tokenizer.chat_template to the template it was trained with, or save "
                "it as chat_template.jinja beside the tokenizer.",
            )
        self.tokenizer = tokenizer
        self.name = name
        self.end_of_turn = None
        if end_of_turn is not None:
            self.end_of_turn = tokenizer.convert_tokens_to_ids(end_of_turn)
            if self.end_of_turn in (None, tokenizer.unk_token_id):
                raise ModelError(
                    f"the end-of-turn token {end_of_turn!r} in the tokenizer of {name}",
                    "none",
                    "Name the token that closes a turn in its template.",
                )
        try:
            ids = self.encode(EXAMPLE, [EXAMPLE_RESPONSE]).sequences[0]
        except RenderError as error:
            raise ModelError(
                f"a chat template of {name} that renders one question and its answer",
                f"an error: {error}",
                "Mend the template: chat_template.jinja, or chat_template in "
                "tokenizer_config.json, beside the tokenizer.",
            ) from None
        if len(ids) > 1 and ids[0] == ids[1] == tokenizer.bos_token_id:
            raise ModelError(
                f"one BOS at the start of a prompt of {name}",
                "two",
                "Remove the one that the template or the tokenizer's post-processor adds.",
            )

    def render(
        self, prompt: Sequence[Mapping[str, str]], response: str | None = None, header=True
    ) -> str:
        """The conversation as text; without a response, with the header that opens one.

        Raises
        ------
        RenderError
            When the template refuses it (consecutive turns of one role, an unknown role).
        """
        turns = [dict(turn) for turn in prompt]
        if response is not None:
            turns.append({"role": "assistant", "content": response})
        try:
            return self.tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=response is None and header
            )
        except Exception as error:  # templates raise Jinja errors of many kinds
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise RenderError(reason[:200]) from None

    def tokenize(self, text: str) -> np.ndarray:
        """Token ids of a rendered text, nothing added."""
        return np.asarray(self.tokenizer(text, add_special_tokens=False)["input_ids"], np.int64)

    def encode(self, prompt: Sequence[Mapping[str, str]], responses: Sequence[str]) -> EncodedItem:
        """Tokens of a prompt with each of its responses.

        Raises
        ------
        RenderError
            When the template refuses the conversation.
        ModelError
            When the token to be read lies inside the prompt.
        """
        opened = self.tokenize(self.render(prompt))
        closed = self.tokenize(self.render(prompt, header=False))
        sequences = [
            self._read_to(self.tokenize(self.render(prompt, response))) for response in responses
        ]
        n_prompt = min(_shared(opened, ids) for ids in sequences)
        if min(map(len, sequences)) <= n_prompt:
            raise ModelError(
                f"a template of {self.name} that closes a response with its end-of-turn token",
                "one that ends the text otherwise, so no token of a response would be read",
                "Name the token that closes the assistant's turn.",
            )
        n_shared = n_prompt
        for ids in sequences:
            n_shared = min(n_shared, len(ids) - 1, _shared(sequences[0], ids))
        gate_at = len(self._read_to(closed[: _shared(closed, opened)])) - 1
        return EncodedItem(sequences, n_prompt, n_shared, min(gate_at, n_shared - 1))

    def _read_to(self, ids: np.ndarray) -> np.ndarray:
        """The ids up to the last end of turn; all of them where none is asked for."""
        if self.end_of_turn is None:
            return ids
        ends = np.flatnonzero(ids == self.end_of_turn)
        if not len(ends):
            raise RenderError("the template closed no turn")
        return ids[: ends[-1] + 1]

    @property
    def fingerprint(self) -> dict[str, str]:
        """Digests of the tokenizer and of the template, 16 hex digits each.

        The tokenizer is told by its vocabulary and by what it makes of ``PROBE``: how a
        version of a library writes it down must not matter.
        """
        vocabulary = hashlib.sha256()
        for token, number in sorted(self.tokenizer.get_vocab().items()):
            vocabulary.update(f"{number} {token}\0".encode())
        vocabulary.update(self.tokenize(PROBE).tobytes())
        template = f"{self.tokenizer.chat_template}\0{self.end_of_turn}"
        return {
            "tokenizer": vocabulary.hexdigest()[:16],
            "template": hashlib.sha256(template.encode()).hexdigest()[:16],
        }

    @property
    def example(self) -> str:
        """A fixed conversation as this format renders it, for the provenance page."""
        return self.render(EXAMPLE, EXAMPLE_RESPONSE)


def _shared(a: np.ndarray, b: np.ndarray) -> int:
    """Length of the longest common prefix."""
    n = min(len(a), len(b))
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n
