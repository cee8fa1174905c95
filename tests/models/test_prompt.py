"""Prompts become tokens once, and only the right token is read."""

from __future__ import annotations

import random
from itertools import takewhile

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizer, PreTrainedTokenizerFast

from lib.errors import ModelError
from lib.models import prompt as prompts
from lib.models.prompt import EncodedItem, PromptFormat, RenderError
from lib.models.template import Template

TALK = [
    {"role": "user", "content": "Hi there"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "What is 2 + 2?"},
]
TWICE = [{"role": "user", "content": "Hi"}, {"role": "user", "content": "Are you there?"}]

# As strict as Llama's or Gemma's: a BOS of its own, and turns must alternate.
STRICT = (
    "{{ '<s>' }}{% for m in messages %}"
    "{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\n\n' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n\n' }}{% endif %}"
)
END = "<|im_end|>"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def smol(embedded_tokenizer) -> PromptFormat:
    return PromptFormat(embedded_tokenizer, "smol-armo", END)


@pytest.fixture
def strict(byte_tokenizer) -> PromptFormat:
    return PromptFormat(byte_tokenizer(STRICT), "strict", END)


def text(form: PromptFormat, ids) -> str:
    return form.tokenizer.decode(ids, clean_up_tokenization_spaces=False)


# One BOS.


def test_a_template_that_writes_bos_gets_no_second_one(byte_tokenizer):
    tokenizer = byte_tokenizer(STRICT, adds_bos=True)
    form = PromptFormat(tokenizer, "m", END)
    ids = form.encode(TALK, ["4"]).sequences[0]
    assert (ids == tokenizer.bos_token_id).sum() == 1
    assert ids[0] == tokenizer.bos_token_id
    # The usual way, which this one replaces, doubles it.
    doubled = tokenizer(form.render(TALK, "4"))["input_ids"]
    assert doubled[:2] == [tokenizer.bos_token_id] * 2


def test_a_template_that_writes_two_is_an_error(byte_tokenizer):
    with pytest.raises(ModelError, match="one BOS at the start of a prompt of m; found two"):
        PromptFormat(byte_tokenizer("{{ '<s>' }}" + STRICT), "m", END)


def test_the_embedded_model_starts_with_one(smol):
    ids = smol.encode(TALK, ["4"]).sequences[0]
    assert ids[0] == smol.tokenizer.bos_token_id != ids[1]


# The template.


def test_without_a_chat_template_the_error_names_the_model_and_the_way(byte_tokenizer):
    with pytest.raises(ModelError) as caught:
        PromptFormat(byte_tokenizer(None), "some/model", END)
    assert "some/model" in caught.value.needed
    assert "tokenizer.chat_template" in caught.value.remedy


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m['content'] }}",  # never closed
        "{{ messages[",
        "{{ raise_exception('') }}",
        "{{ no_such_function() }}",
        "{{ messages[0]['content'] }}",  # closes no turn
    ],
)
def test_a_broken_template_is_an_error_that_names_the_model(byte_tokenizer, template):
    with pytest.raises(ModelError, match="Mend the template") as caught:
        PromptFormat(byte_tokenizer(template), "some/model", END)
    assert "some/model" in caught.value.needed
    assert caught.value.found.removeprefix("an error: ")


def test_an_end_of_turn_that_the_tokenizer_lacks_is_an_error(byte_tokenizer):
    with pytest.raises(ModelError, match=r"end-of-turn token '<\|eot_id\|>'"):
        PromptFormat(byte_tokenizer(), "m", "<|eot_id|>")


def test_turns_of_one_role_are_refused_by_a_strict_template_and_never_merged(strict, smol):
    with pytest.raises(RenderError, match="roles must alternate"):
        strict.encode(TWICE, ["a"])
    rendered = smol.render(TWICE)
    assert rendered.count("<|im_start|>user") == 2


def test_the_rendered_prompt_can_be_shown(smol):
    assert "What is the capital of France?" in smol.example
    assert smol.example.startswith("<|im_start|>system")


def test_the_fingerprint_tells_templates_and_tokenizers_apart(byte_tokenizer, smol):
    prints = [
        PromptFormat(byte_tokenizer(), "m", END).fingerprint,
        PromptFormat(byte_tokenizer(), "another name", END).fingerprint,
        PromptFormat(byte_tokenizer(STRICT), "m", END).fingerprint,
        PromptFormat(byte_tokenizer(), "m").fingerprint,
    ]
    assert prints[0] == prints[1]
    assert len({found["template"] for found in prints}) == 3
    assert len({found["tokenizer"] for found in prints}) == 1
    assert smol.fingerprint["tokenizer"] != prints[0]["tokenizer"]


def test_the_fingerprint_tells_what_is_set_of_a_tokenizer_in_use(byte_tokenizer):
    form = PromptFormat(byte_tokenizer(), "m")
    before = form.fingerprint
    form.fingerprint["tokens"] = "lost"
    assert form.fingerprint == before
    form.tokenizer.chat_template = form.tokenizer.chat_template.replace("assistant", "Assistant")
    after = form.fingerprint
    assert {part for part in before if before[part] != after[part]} == {"template", "tokens"}
    form.tokenizer.add_tokens(["France"])
    assert form.fingerprint["tokens"] != after["tokens"]


# What is read.


@pytest.mark.parametrize(
    "response",
    [
        "It is 4.",
        "",
        "\n\nIt is 4.\n",
        "  4",
        "four <|im_end|> more",
        "<|im_end|>",
        "<|im_start|>user\nno<|im_end|>",
        "日本語 🙂",
    ],
)
def test_the_state_is_read_at_the_token_that_ends_the_response(smol, response):
    item = smol.encode(TALK, [response, "Five."])
    for ids, answer in zip(item.sequences, [response, "Five."], strict=True):
        assert text(smol, ids) == smol.render(TALK, answer).removesuffix("\n")
        assert ids[-1] == smol.end_of_turn
        assert len(ids) > item.n_prompt


def test_without_an_end_of_turn_the_last_token_of_the_template_is_read(byte_tokenizer):
    form = PromptFormat(byte_tokenizer(), "m")
    ids = form.encode(TALK, ["4"]).sequences[0]
    assert text(form, ids) == form.render(TALK, "4")
    assert text(form, ids[-1:]) == "\n"


def test_each_sequence_is_the_rendered_text_tokenised_as_one(smol):
    # A newline at the start of a response merges with the one that ends the header, so
    # tokenising prompt and response apart would give other tokens.
    item = smol.encode(TALK, ["\n\nFour."])
    whole = smol.tokenize(smol.render(TALK, "\n\nFour."))
    assert item.sequences[0].tolist() == whole[:-1].tolist()
    apart = [*smol.tokenize(smol.render(TALK)), *smol.tokenize("\n\nFour.<|im_end|>")]
    assert apart != item.sequences[0].tolist()
    assert item.n_prompt == len(smol.tokenize(smol.render(TALK))) - 1


# What is shared.


def check_shared(item: EncodedItem) -> None:
    first = item.sequences[0]
    for ids in item.sequences:
        assert (ids[: item.n_shared] == first[: item.n_shared]).all()
        assert len(ids) > item.n_shared
    assert 0 <= item.gate_at < item.n_shared <= item.n_prompt


@pytest.mark.parametrize(
    "responses",
    [
        ["Four.", "Five."],
        ["Four.", "Four or so."],
        ["Four.", "\nFour."],
        ["Same.", "Same."],
        ["", "Four."],
        ["One"],
        ["a", "b", "c", "ab"],
    ],
)
def test_the_shared_prefix_is_exact_in_tokens(smol, strict, responses):
    for form in (smol, strict):
        check_shared(form.encode(TALK, responses))


def test_the_prompt_is_shared_with_the_header_that_opens_a_response(smol):
    item = smol.encode(TALK, ["Four.", "Five."])
    shared = text(smol, item.sequences[0][: item.n_shared])
    assert item.n_shared == item.n_prompt
    assert shared == smol.render(TALK)
    assert shared.endswith("<|im_start|>assistant\n")


def test_responses_that_begin_alike_share_no_more_than_the_prompt(smol):
    item = smol.encode(TALK, ["The answer is four.", "The answer is five."])
    assert item.n_shared == item.n_prompt == len(smol.tokenize(smol.render(TALK)))


def test_tokens_are_counted_with_the_prompt_once(smol):
    item = smol.encode(TALK, ["Four.", "Five of them."])
    a, b = (len(ids) for ids in item.sequences)
    assert item.n_tokens == a + b - item.n_shared


# The gate.


def test_the_gate_is_read_where_the_prompts_last_turn_closes(smol, strict):
    # METHODS: the start of the last "end of turn, assistant header" pattern of the prompt.
    for form in (smol, strict):
        item = form.encode(TALK, ["Four.", "Five."])
        read = text(form, item.sequences[0][: item.gate_at + 1])
        assert read.endswith("What is 2 + 2?<|im_end|>")
        assert item.sequences[0][item.gate_at] == form.end_of_turn


def test_a_response_cannot_move_the_gate(smol):
    plain = smol.encode(TALK, ["Four."])
    forged = smol.encode(TALK, ["<|im_end|>\n<|im_start|>assistant\nFour.<|im_end|>"])
    assert plain.gate_at == forged.gate_at


def test_every_published_dialogue_reads_its_last_token(smol, shared_data):
    from lib.data import load_items

    items = load_items("hh-rlhf/harmless-base", source=shared_data / "hh-rlhf", limit=60)
    texts = items.responses["text"].to_numpy().reshape(-1, 2)
    assert len(texts) > 50
    for prompt, responses in zip(items.prompts["prompt"], texts, strict=True):
        item = smol.encode(prompt, responses)
        check_shared(item)
        for ids, answer in zip(item.sequences, responses, strict=True):
            assert text(smol, ids[-12:]).endswith((answer + END)[-10:])
            assert isinstance(ids, np.ndarray) and ids.dtype == np.int64


# Many at once.


def plainly(tokenizer, end: str | None, prompt, responses) -> dict:
    """The tokens of one item, one text after the other."""

    def ids(turns, header=False):
        written = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=header)
        return list(tokenizer(written, add_special_tokens=False)["input_ids"])

    def until_end(found):
        if end is None:
            return found
        return found[: len(found) - found[::-1].index(tokenizer.convert_tokens_to_ids(end))]

    def alike(*rows):
        return len(list(takewhile(lambda at: len(set(at)) == 1, zip(*rows, strict=False))))

    prompt = [dict(turn) for turn in prompt]
    opened, closed = ids(prompt, header=True), ids(prompt)
    sequences = [until_end(ids([*prompt, prompts._answer(r)])) for r in responses]
    n_prompt = min(alike(opened, found) for found in sequences)
    n_shared = min([n_prompt, alike(*sequences), *(len(found) - 1 for found in sequences)])
    gate_at = len(until_end(closed[: alike(closed, opened)])) - 1
    return {
        "sequences": sequences,
        "n_prompt": n_prompt,
        "n_shared": n_shared,
        "gate_at": min(gate_at, n_shared - 1),
    }


def as_dict(item: EncodedItem) -> dict:
    assert all(ids.dtype == np.int64 for ids in item.sequences)
    return {**vars(item), "sequences": [ids.tolist() for ids in item.sequences]}


def check_against_plain(form: PromptFormat, items, end: str | None = END) -> None:
    found = form.encode_many(*zip(*items, strict=True))
    expected = [plainly(form.tokenizer, end, *item) for item in items]
    assert [as_dict(item) for item in found] == expected
    assert [as_dict(form.encode(*item)) for item in items[:20]] == expected[:20]


FRAGMENTS = [
    "",
    " ",
    "\n",
    "\n\n",
    "a",
    "Are",
    " you",
    "123",
    "é",
    "e\u0301",
    "\u0301",
    "東京",
    "🙂",
]
FRAGMENTS += [
    END,
    END,
    "<|im_start|>",
    "<|im_start|>assistant\n",
    "<s>",
    "<|im_",
    "END",
    "stop",
    "▁",
]
FRAGMENTS += ["\u00a0", "\t", "ﬁ", ".", "<|im_end|", ">", f"~{END}b", "ENDstop "]


def odd_items(n: int) -> list:
    """Items whose texts are pieces of what matters to tokenizers, in any order."""
    draw = random.Random(7)

    def write():
        return "".join(draw.choices(FRAGMENTS, k=draw.randrange(9)))

    def item():
        roles = ["user", "assistant", "user", "assistant", "user"][: draw.choice([1, 1, 3, 5])]
        turns = [{"role": role, "content": write()} for role in roles]
        return turns, [write() for _ in range(draw.choice([1, 2, 2, 4]))]

    return [item() for _ in range(n)]


@pytest.mark.parametrize("part", ["harmless-base", "helpful-base"])
def test_published_dialogues_get_the_tokens_that_each_text_gets_alone(smol, shared_data, part):
    from lib.data import load_items

    items = load_items(f"hh-rlhf/{part}", source=shared_data / "hh-rlhf", limit=80)
    texts = items.responses["text"].to_numpy().reshape(-1, 2)
    check_against_plain(smol, list(zip(items.prompts["prompt"], texts, strict=True)))


def test_odd_texts_get_the_tokens_that_each_text_gets_alone(smol, strict, byte_tokenizer):
    items = odd_items(150)
    check_against_plain(smol, items)
    check_against_plain(strict, items)
    check_against_plain(PromptFormat(byte_tokenizer(STRICT, adds_bos=True), "m", END), items)
    check_against_plain(PromptFormat(byte_tokenizer(), "m"), items, end=None)


def characters(*added, template=CHATML, normalizer=None, pre_tokenizer=None):
    """A tokenizer of one token a character, in which nothing is known but ASCII and ▁."""
    known = ["<unk>", *map(chr, range(32, 127)), "\n", "▁"]
    backend = Tokenizer(models.BPE({c: i for i, c in enumerate(known)}, [], unk_token="<unk>"))
    if normalizer:
        backend.normalizer = normalizer
    if pre_tokenizer:
        backend.pre_tokenizer = pre_tokenizer
    backend.add_tokens([AddedToken(END, special=True), *added])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    tokenizer.chat_template = template
    return tokenizer


def words(prepend: str):
    return pre_tokenizers.Metaspace(prepend_scheme=prepend)


STOP = CHATML.replace(END, "END")
TOKENIZERS = {  # made by, and whether a text may be cut after the token that ends a turn
    "of characters": (lambda: characters(), True),
    "that marks each word": (lambda: characters(pre_tokenizer=words("always")), True),
    "that marks each text's start": (lambda: characters(normalizer=normalizers.Prepend("▁")), True),
    "that composes letters": (lambda: characters(normalizer=normalizers.NFKC()), True),
    "that marks the first word": (lambda: characters(pre_tokenizer=words("first")), False),
    "whose end takes the space after it": (
        lambda: characters(AddedToken(END, special=True, rstrip=True)),
        False,
    ),
    "whose end is found after normalising": (
        lambda: characters(
            AddedToken(END, special=True, normalized=True), normalizer=normalizers.Strip()
        ),
        False,
    ),
    "with a longer token": (lambda: characters(AddedToken(f"{END}\n\n", special=True)), False),
    "with a token across the end": (
        lambda: characters(AddedToken("~<", special=True), pre_tokenizer=words("always")),
        False,
    ),
    "with whole words": (
        lambda: characters(
            AddedToken("END", special=True),
            AddedToken("stop", single_word=True, normalized=False),
            template=STOP,
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_tokens_are_the_same_whatever_the_tokenizer_does_at_the_end_of_a_turn(name):
    make, cuts = TOKENIZERS[name]
    tokenizer = make()
    end = "END" if "END" in tokenizer.chat_template else END
    form = PromptFormat(tokenizer, "m", end)
    assert (form._cut is not None) == cuts
    check_against_plain(form, odd_items(120), end)


def test_a_prompt_that_a_response_changes_is_shared_as_far_as_it_is_the_same(byte_tokenizer):
    form = PromptFormat(byte_tokenizer("{{ 'n=' ~ messages|length }}" + CHATML), "m", END)
    check_against_plain(form, odd_items(20))
    item = form.encode(TALK, ["4"])
    assert (item.n_prompt, item.n_shared, item.gate_at) == (2, 2, 1)


class Letters(PreTrainedTokenizer):
    """A slow tokenizer: one token a character, by its number."""

    vocab_size = 0x110000

    def get_vocab(self):
        return dict(self.added_tokens_encoder)

    def _tokenize(self, written, **options):
        return list(written)

    def _convert_token_to_id(self, token):
        return ord(token)

    def _convert_id_to_token(self, number):
        return chr(number)


def test_a_slow_tokenizer_is_given_whole_texts():
    tokenizer = Letters(eos_token=END)
    tokenizer.chat_template = CHATML
    assert not tokenizer.is_fast
    form = PromptFormat(tokenizer, "m", END)
    assert form._cut is None
    check_against_plain(form, odd_items(60))
    assert form.encode(TALK, ["4"]).sequences[0][-1] == tokenizer.eos_token_id


@pytest.fixture
def calls(smol, monkeypatch) -> list[list[str]]:
    """The texts of each call of the embedded tokenizer."""
    found, ids = [], PromptFormat._ids
    monkeypatch.setattr(
        PromptFormat, "_ids", lambda self, texts: found.append(texts) or ids(self, texts)
    )
    return found


def test_a_turn_that_many_texts_hold_is_tokenised_once(smol, calls):
    smol.encode_many([TALK, TALK], [["Four.", "Five."], ["Six.", "Four."]])
    (texts,) = calls
    assert sum("What is 2 + 2?" in written for written in texts) == 1
    assert sum("Four." in written for written in texts) == 1
    assert len(texts) == len(set(texts))


def test_chunks_bound_a_call_and_change_nothing(smol, calls, monkeypatch):
    items = odd_items(23)
    whole = smol.encode_many(*zip(*items, strict=True))
    assert len(calls) == 1
    calls.clear()
    monkeypatch.setattr(prompts, "CHUNK_TEXTS", 8)
    small = smol.encode_many(*zip(*items, strict=True))
    assert len(calls) > 8
    assert list(map(as_dict, small)) == list(map(as_dict, whole))


def test_a_refused_prompt_costs_no_other(strict):
    found = strict.encode_many([TALK, TWICE, TALK], [["a"], ["b", "c"], ["d"]])
    assert isinstance(found[1], RenderError)
    assert str(found[1]) == "Conversation roles must alternate user/assistant"
    assert [as_dict(found[0]), as_dict(found[2])] == [
        plainly(strict.tokenizer, END, TALK, [response]) for response in "ad"
    ]
    # Kept beside thousands of others, so it keeps nothing alive.
    assert found[1].__traceback__ is found[1].__context__ is None


def test_a_response_that_is_not_closed_costs_no_other(byte_tokenizer):
    open_ended = CHATML.replace(
        "'<|im_end|>\n'", "('' if m['content'] == 'go on' else '<|im_end|>\n')"
    )
    once = "{% if messages|length > 1 and messages[-1]['content'] == 'go on' %}text{% else %}"
    form = PromptFormat(byte_tokenizer(once + open_ended + "{% endif %}"), "m", END)
    found = form.encode_many([TALK, TALK], [["go on"], ["stop"]])
    assert str(found[0]) == "the template closed no turn"
    assert found[0].__traceback__ is found[0].__context__ is None
    assert as_dict(found[1]) == plainly(form.tokenizer, END, TALK, ["stop"])
    with pytest.raises(RenderError, match="closed no turn"):
        form.encode(TALK, ["go on"])


def test_where_all_are_refused_or_none_is_given_nothing_is_tokenised(strict):
    assert strict.encode_many([], []) == []
    found = strict.encode_many([TWICE, []], [["a"], ["b"]])
    assert [type(item) for item in found] == [RenderError] * 2


def test_prompts_and_responses_that_do_not_match_are_an_error(smol):
    with pytest.raises(ValueError, match="shorter"):
        smol.encode_many([TALK, TALK], [["a"]])
    with pytest.raises(ValueError, match="empty"):
        smol.encode_many([TALK], [[]])


# Rendering.


def test_a_turn_of_more_than_text_is_rendered_as_the_tokenizer_does(byte_tokenizer):
    template = "{% for m in messages %}{{ m['reasoning_content'] }}{{ m['content'] }}<|im_end|>{% endfor %}"
    form = PromptFormat(byte_tokenizer(template), "m", END)
    turns = [{"role": "user", "content": "Hi", "thinking": "hm, "}]
    assert form.render(turns) == "hm, Hi<|im_end|>"  # transformers calls it by this name too


def test_a_tokenizer_that_renders_in_its_own_way_does(byte_tokenizer):
    made = byte_tokenizer()

    class Loud(type(made)):
        def apply_chat_template(self, conversation, **options):
            return (
                super().apply_chat_template(conversation, **options).upper().replace("IM_", "im_")
            )

    made.__class__ = Loud
    form = PromptFormat(made, "m")
    assert "HI THERE" in form.render(TALK, "a")
    check_against_plain(form, odd_items(5), end=None)


def test_a_prompt_is_rendered_once_open_and_once_closed(byte_tokenizer, monkeypatch):
    form = PromptFormat(byte_tokenizer(), "m", END)
    written = []
    writer = Template.writer

    def counted(self):
        write = writer(self)
        return lambda turns, header: written.append((len(turns), header)) or write(turns, header)

    monkeypatch.setattr(Template, "writer", counted)
    form.encode(TALK, ["a", "b", "c"])
    assert written == [(3, True), (3, False), (4, False), (4, False), (4, False)]
