"""From a conversation to tokens, and which of those tokens a reward model reads.

The chat template is rendered to text once and tokenised once, without adding special
tokens: a template writes its own, and a second BOS would move every score. Prompt and
response are never tokenised apart, since tokens can merge across the seam; what responses
of one prompt share is the longest common prefix of their tokens.

Many items are encoded together: their texts go to the tokenizer in one call, which a fast
tokenizer spreads over the cores. A token that stands for itself wherever it is written
(``<|im_end|>``) parts a text into pieces that know nothing of each other, so a piece that
many texts hold, such as a turn of their prompt, is tokenised once. Where a tokenizer
doesn't promise that, whole texts are tokenised: the tokens are the same either way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from lib.errors import ModelError
from lib.models.template import RenderError, Template, rendered

CHUNK_TEXTS = 2048  # tokenised in one call, which bounds the memory that a call takes

EXAMPLE = [{"role": "user", "content": "What is the capital of France?"}]
EXAMPLE_RESPONSE = "Paris is the capital of France."
PROBE = "Naïve café,\r\n\tx  = 1234567;  don't STOP\u00a0— 東京 🙂 İ ﬁ e\u0301 <|im_end|>\n\n\n"


# What tells ways to tokenise apart: turns of all kinds, odd characters and space, and a text
# that is longer than where most tokenizers cut.
PROBES = (
    (EXAMPLE, [EXAMPLE_RESPONSE]),
    ([{"role": "user", "content": PROBE}], [PROBE, f" {PROBE} ", PROBE[::-1]]),
    (
        [
            {"role": "system", "content": "You are terse."},
            *EXAMPLE,
            {"role": "assistant", "content": EXAMPLE_RESPONSE},
            {"role": "user", "content": "\n  And of Spain? "},
        ],
        ["Madrid.", "- Madrid\n\n```python\ndef f():\n\treturn 'x'\n```\n"],
    ),
    ([{"role": "system", "content": ""}, *EXAMPLE], [EXAMPLE_RESPONSE]),
    ([*EXAMPLE, *EXAMPLE], [EXAMPLE_RESPONSE]),
    ([{"role": "assistant", "content": "Hello!"}, *EXAMPLE], [EXAMPLE_RESPONSE]),
    ([{"role": "tool", "content": "4"}], ["Four."]),
    ([{"role": "user", "content": " ".join(map(str, range(0, 70_000, 7)))}], ["Numbers."]),
)
SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


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
        Length of the sequences' longest common prefix, short of each one's last token.
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
    date
        What a template that writes today's date writes in its place; see ``Template``.
        The attribute of this name is empty for a template that asks for none.

    Raises
    ------
    ModelError
        Without a chat template, with one that can't render a question and its answer (a
        syntax error in it), goes on and on or draws at random, when the tokens would start
        with two BOS, or for a date that is none.
    """

    def __init__(
        self, tokenizer, name: str, end_of_turn: str | None = None, date: str | None = None
    ):
        self._template = Template(tokenizer, name, date, _conversations())
        self.date = self._template.date
        self.tokenizer = tokenizer
        self.name = name
        self.end_of_turn = None
        self._cut = None
        self._told: tuple[str, dict[str, str]] = "", {}
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
        self._last = int(ids[-1])
        self._cut = self._find_cut()

    def render(
        self, prompt: Sequence[Mapping[str, str]], response: str | None = None, header=True
    ) -> str:
        """The conversation as text; without a response, with the header that opens one.

        A ``RenderError`` when the template refuses it (consecutive turns of one role, say).
        """
        turns, write = [dict(turn) for turn in prompt], self._template.writer()
        asked = (turns, header) if response is None else ([*turns, _answer(response)], False)
        found = rendered(write, [asked])
        if isinstance(found, RenderError):
            raise found
        return found[0]

    def tokenize(self, text: str) -> np.ndarray:
        """Token ids of a rendered text, nothing added."""
        return self._ids([text])[0]

    def encode(self, prompt: Sequence[Mapping[str, str]], responses: Sequence[str]) -> EncodedItem:
        """Tokens of a prompt with each of its responses; errors as in ``encode_many``, raised."""
        (item,) = self.encode_many([prompt], [responses])
        if isinstance(item, RenderError):
            raise item
        return item

    def encode_many(
        self,
        prompts: Iterable[Sequence[Mapping[str, str]]],
        responses: Iterable[Sequence[str]],
    ) -> list[EncodedItem | RenderError]:
        """Tokens of many prompts, each with each of its responses, in the same order.

        A prompt that the template refuses has its ``RenderError`` in its place.

        Raises
        ------
        ModelError
            When the token to be read lies inside a prompt.
        ValueError
            When prompts and lists of responses aren't as many, or a list is empty.
        """
        found = []
        for chunk in self._chunks(prompts, responses):
            written = [texts for texts in chunk if not isinstance(texts, RenderError)]
            ids = iter(self._tokens(list(chain.from_iterable(written))))
            for texts in chunk:
                if not isinstance(texts, RenderError):
                    texts = self._item(*(next(ids) for _ in texts))
                found.append(texts)
        return found

    def _chunks(self, prompts, responses) -> Iterator[list[list[str] | RenderError]]:
        """The texts of each item, by as many items as make about ``CHUNK_TEXTS`` texts."""
        write = self._template.writer()
        chunk, n_texts = [], 0
        for prompt, answers in zip(prompts, responses, strict=True):
            chunk.append(_texts(write, prompt, answers))
            n_texts += 2 + len(answers)
            if n_texts >= CHUNK_TEXTS:
                yield chunk
                chunk, n_texts = [], 0
        if chunk:
            yield chunk

    def _item(
        self, opened: np.ndarray, closed: np.ndarray, *answered: np.ndarray
    ) -> EncodedItem | RenderError:
        """An item, of the ids of its prompt with and without a header, and of its responses."""
        try:
            sequences = [self._read_to(ids) for ids in answered]
            last_turn = self._read_to(closed[: _shared(closed, opened)])
        except RenderError as error:
            return RenderError(*error.args)  # holds no frame, so no text
        n_prompt = min(_shared(opened, ids) for ids in sequences)
        if min(map(len, sequences)) <= n_prompt:
            raise ModelError(
                f"a template of {self.name} that closes a response with its end-of-turn token",
                "one that ends the text otherwise, so no token of a response would be read",
                "Name the token that closes the assistant's turn.",
            )
        # All begin with the same n_prompt tokens and none ends there.
        return EncodedItem(sequences, n_prompt, n_prompt, min(len(last_turn), n_prompt) - 1)

    def _ids(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids of each text, in one call of the tokenizer."""
        if not texts:
            return []
        found = self.tokenizer(
            texts,
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        return [np.asarray(ids, np.int64) for ids in found["input_ids"]]

    def _tokens(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids of each text; a piece that several texts hold is tokenised once."""
        pieces = [_pieces(text, self._cut) for text in texts]
        distinct = list(dict.fromkeys(chain.from_iterable(pieces)))
        ids = dict(zip(distinct, self._ids(distinct), strict=True))
        return [np.concatenate([ids[piece] for piece in parts]) for parts in pieces]

    def _find_cut(self) -> str | None:
        """The token after which texts may be cut without another token coming out.

        A fast tokenizer finds its added tokens first, the longest at each place from the
        left, and does all else to the text between them. So it is one found as it stands
        (not after normalising, not as a word), wherever it is written (no other can
        overlap it), where none takes the space around it. ``None`` where there is none,
        or where the text after it still depends on what was before, as with a
        pre-tokenizer that marks the first word only.
        """
        tokenizer = self.tokenizer
        if not getattr(tokenizer, "is_fast", False) or getattr(
            tokenizer, "split_special_tokens", False
        ):
            return None
        added = list(tokenizer.added_tokens_decoder.values())
        if any(token.lstrip or token.rstrip or token.single_word for token in added):
            return None
        texts = [
            self.render(EXAMPLE),
            self.render(EXAMPLE, header=False),
            self.render(EXAMPLE, EXAMPLE_RESPONSE),
            self.render(EXAMPLE, EXAMPLE_RESPONSE[::-1]),
        ]

        def left(cut: str) -> int:
            return sum(map(len, {piece for text in texts for piece in _pieces(text, cut)}))

        names = [token.content for token in added]
        usable = [
            token.content
            for token in added
            if not token.normalized
            and token.content in texts[-1]
            and sum(_overlap(token.content, name) for name in names) == 1  # itself
        ]
        if not usable:
            return None
        cut = min(usable, key=left)
        text = cut.join([PROBE, *PROBE.split(), "", f" {PROBE}", f"\n{PROBE}", *texts])
        pieces = self._ids(_pieces(text, cut))
        return cut if np.array_equal(np.concatenate(pieces), self.tokenize(text)) else None

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
        """Digests of ``tokenizer``, ``template`` and ``tokens``, 16 hex digits each.

        The tokenizer is told by its vocabulary and its special and added tokens, not by how
        a library writes them down; the template by its text, its date and the token that is
        read; the tokens are those of ``PROBES``, as ``encode`` gives them.
        """
        special = [getattr(self.tokenizer, f"{name}_token", None) for name in SPECIAL]
        added = [
            (n, t.content, t.lstrip, t.rstrip, t.single_word, t.normalized, t.special)
            for n, t in sorted(getattr(self.tokenizer, "added_tokens_decoder", {}).items())
        ]
        marks = repr((special, added))
        template = f"{self.tokenizer.chat_template}\0{self.end_of_turn}\0{self.date}"
        if self._told[0] != marks + template:  # what may be set of a tokenizer that is in use
            self._told = (
                marks + template,
                {
                    "tokenizer": self._vocabulary(marks),
                    "template": hashlib.sha256(template.encode()).hexdigest()[:16],
                    "tokens": self._probed(),
                },
            )
        return dict(self._told[1])

    def _vocabulary(self, marks: str) -> str:
        """Digest of all tokens and of ``marks``, what is special of some."""
        known = sorted(self.tokenizer.get_vocab().items())
        text = "".join([f"{number} {token}\0" for token, number in known])
        return hashlib.sha256((text + marks).encode()).hexdigest()[:16]

    def _probed(self) -> str:
        """Digest of the tokens of ``PROBES``."""
        tokens = hashlib.sha256()
        for prompt, responses in PROBES:
            try:
                item = self.encode(prompt, responses)
            except (RenderError, ModelError):
                tokens.update(b"refused\0")
                continue
            tokens.update(f"{item.n_prompt} {item.n_shared} {item.gate_at}\0".encode())
            for ids in item.sequences:
                tokens.update(f"{len(ids)}\0".encode() + ids.tobytes())
        return tokens.hexdigest()[:16]

    @property
    def example(self) -> str:
        """A fixed conversation as this format renders it, for the provenance page."""
        return self.render(EXAMPLE, EXAMPLE_RESPONSE)

    @property
    def reads(self) -> str:
        """Which token's state is read, in words."""
        shown = repr(self.tokenizer.decode([self._last]))
        return f"the last {shown}" if self.end_of_turn is not None else f"the last token, {shown}"


def _answer(response: str) -> dict[str, str]:
    return {"role": "assistant", "content": response}


def _texts(write, prompt, responses) -> list[str] | RenderError:
    """A prompt with a header that opens a response and without, then with each response."""
    turns = [dict(turn) for turn in prompt]
    answered = [([*turns, _answer(response)], False) for response in responses]
    return rendered(write, [(turns, True), (turns, False), *answered])


def _conversations() -> list[list[dict[str, str]]]:
    return [[*prompt, _answer(text)] for prompt, responses in PROBES for text in responses]


def _pieces(text: str, cut: str | None) -> list[str]:
    """The text in pieces that each end with ``cut``, save the last."""
    if cut is None:
        return [text]
    *ended, rest = text.split(cut)
    pieces = [part + cut for part in ended]
    return [*pieces, rest] if rest or not pieces else pieces


def _overlap(a: str, b: str) -> bool:
    """Whether the two can be written so that they share a character."""
    ends = range(1, min(len(a), len(b)))
    return a in b or b in a or any(a.endswith(b[:n]) or b.endswith(a[:n]) for n in ends)


def _shared(a: np.ndarray, b: np.ndarray) -> int:
    """Length of the longest common prefix."""
    n = min(len(a), len(b))
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n
