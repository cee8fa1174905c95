"""*Template*: what it writes around a text by itself, and what another one costs."""

from __future__ import annotations

import contextlib
import copy
import re
from itertools import takewhile

import numpy as np

from lib.check.lines import NOTE, RIGHT, TEMPLATE, UNTOLD, WRONG, Row
from lib.check.subject import Subject, encoded
from lib.data import load_items
from lib.data.items import Items
from lib.extraction.job import unfit
from lib.models.prompt import EXAMPLE, EXAMPLE_RESPONSE, PromptFormat
from lib.models.template import DATE, RenderError
from lib.stats.proportions import by_prompt, clustered, wilson

STIMULI, SUBSET = "stimuli/controlled", "correctness"  # what the cost is measured on
REMEDY = "Compare the template with that of the model's release: chat_template.jinja."
FEWEST = 20
MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
MONTHS = MONTH.split("|")
DAY_MONTH = re.compile(rf"\b(\d{{1,2}})[ -](?P<m>{MONTH})[a-z]*,?[ -](\d{{4}})\b")
MONTH_DAY = re.compile(rf"\b(?P<m>{MONTH})[a-z]*\.? (\d{{1,2}}),? (\d{{4}})\b")
NUMBERS = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
# Templates of two families, as text; and none. Whoever has one gets the other.
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
    "'<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = (
    "{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + "
    "m['content'] + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
PLAIN = (
    "{% for m in messages %}{{ m['content'] }}"
    "{% if not loop.last %}{{ '\n\n' }}{% endif %}{% endfor %}"
)


def rows(format: PromptFormat, system_prompt: str | None = None) -> list[Row]:
    """What opens and closes a text, dates, and the system prompt that nobody asked for.

    ``system_prompt`` is what the model's card names, if it names one.
    """
    return [opens(format), closes(format), date(format), system(format, system_prompt)]


def opens(format: PromptFormat) -> Row:
    """BOS once, where the tokenizer puts one in front of plain texts; nowhere twice."""
    bos = format.tokenizer.bos_token_id
    ids = format.tokenize(format.example).tolist()
    count = next((i for i, each in enumerate(ids) if each != bos), len(ids))
    adds = bos is not None and format.tokenizer("a")["input_ids"][:1] == [bos]
    name = repr(format.tokenizer.bos_token)
    found = f"{name} {count} times" if count != 1 else f"{name} once"
    if bos is None or not (adds or count):
        return Row(TEMPLATE, "opens", "no BOS", "no BOS: the tokenizer adds none", RIGHT)
    verdict = RIGHT if count == 1 else WRONG
    do = REMEDY if verdict == WRONG else ""
    return Row(TEMPLATE, "opens", found, f"{name} once", verdict, do)


def closes(format: PromptFormat) -> Row:
    """Special tokens after the response, each once."""
    tail = format.example.rpartition(EXAMPLE_RESPONSE)[2]
    added = set(getattr(format.tokenizer, "added_tokens_decoder", {}))
    special = [each for each in format.tokenize(tail).tolist() if each in added]
    expected = "a token that closes the response, once"
    found = f"{tail!r}"
    if not special:
        do = "Where the model was trained with a closing token, the template lacks it."
        return Row(TEMPLATE, "closes", f"{found}, no special token", expected, UNTOLD, do)
    if len(set(special)) < len(special):
        return Row(TEMPLATE, "closes", found, expected, WRONG, REMEDY)
    return Row(TEMPLATE, "closes", found, expected, RIGHT)


def date(format: PromptFormat) -> Row:
    """Days that the template writes; all of them the pinned one."""
    pinned = format.date or DATE
    found = dates(format.example)
    expected = f"no date, or {pinned}"
    if set(found) <= {pinned}:
        return Row(TEMPLATE, "date", ", ".join(found) or "no date", expected, RIGHT)
    do = "A date of its own is part of every score: give the date it was trained with (--date)."
    return Row(TEMPLATE, "date", ", ".join(found), expected, WRONG, do)


def dates(text: str) -> list[str]:
    """Days in a text, as year-month-day, each once."""
    found = [f"{y}-{m}-{d}" for y, m, d in NUMBERS.findall(text)]
    for match in DAY_MONTH.finditer(text):
        found.append(f"{match[3]}-{MONTHS.index(match['m']) + 1:02}-{int(match[1]):02}")
    for match in MONTH_DAY.finditer(text):
        found.append(f"{match[3]}-{MONTHS.index(match['m']) + 1:02}-{int(match[2]):02}")
    return list(dict.fromkeys(found))


def system(format: PromptFormat, expected: str | None) -> Row:
    """The text that the template puts before a conversation, beside what the card names."""
    adds = added(format)
    found = repr(adds[:200]) if adds else "none"
    if expected is None:
        verdict, needed = (NOTE if adds else RIGHT), "as in the model's card, which names none"
        do = (
            "It is part of every prompt; a system turn of your own takes its place." if adds else ""
        )
        return Row(TEMPLATE, "system prompt", found, needed, verdict, do)
    needed = f"{expected[:200]!r}, as in the model's card"
    if (expected.strip() in adds) if expected.strip() else not adds:
        return Row(TEMPLATE, "system prompt", found, needed, RIGHT)
    return Row(TEMPLATE, "system prompt", found, needed, WRONG, REMEDY)


def added(format: PromptFormat) -> str:
    """What stands before the first turn's own header, without special tokens."""
    user = EXAMPLE[-1]["content"]
    longer = [*EXAMPLE, {"role": "assistant", "content": EXAMPLE_RESPONSE}, *EXAMPLE]
    first, later = format.example.partition(user)[0], ""
    with contextlib.suppress(RenderError):  # a template of one turn has no later header
        whole = format.render(longer, EXAMPLE_RESPONSE)
        later = whole.partition(EXAMPLE_RESPONSE)[2].partition(user)[0]
    for token in getattr(format.tokenizer, "added_tokens_decoder", {}).values():
        first, later = (text.replace(token.content, " ") for text in (first, later))
    ends = zip(reversed(first), reversed(later), strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    return re.sub(r"^\s*system\b", "", first[: len(first) - shared]).strip()


def costs(subject: Subject) -> tuple[list[Row], list[dict]]:
    """How often the right response wins under the model's template, none, and another family's.

    On all pairs of the stimuli that differ in correctness alone; differences are paired. The score
    is the final one, else the last head's.
    """
    items = load_items(STIMULI)
    items = items.select((items.comparisons["subset"] == SUBSET).to_numpy())
    renderings = {"its own": subject.model.format}
    for name, template in (("none", PLAIN), ("another family's", _other(subject.model.format))):
        renderings[name] = _with(subject.model.format, template)
    found = {name: encoded(format, items) for name, format in renderings.items()}
    fit = set(items.prompts["item"].astype(str))
    for kept, tokens in found.values():
        names = kept.prompts["item"].astype(str)
        fit &= {n for n, item in zip(names, tokens, strict=True) if not unfit(subject.model, item)}
    if len(fit) < FEWEST:
        told = f"{len(fit)} stimuli fit the model"
        return [Row(TEMPLATE, "cost", told, f"{FEWEST} or more", NOTE)], []
    wins = {name: _wins(subject, *each, fit) for name, each in found.items()}
    own, prompt = wins["its own"]
    table = []
    for name, (won, _) in wins.items():
        rate = wilson(*by_prompt(won, prompt))
        record = {"template": name, "n": len(won), "rate": float(rate.estimate)}
        record |= {"low": float(rate.low), "high": float(rate.high)}
        difference = clustered(won - own, prompt)
        ends = {"": difference.estimate, "_low": difference.low, "_high": difference.high}
        record |= {f"difference{end}": float(value) for end, value in ends.items()}
        table.append(record)
    return [_cost(record, table[0]) for record in table[1:]], table


def _cost(record: dict, own: dict) -> Row:
    return Row(
        TEMPLATE,
        f"cost of {record['template']}",
        f"the right response of {record['n']} wins {record['rate']:.3f} "
        f"[{record['low']:.3f}, {record['high']:.3f}], {record['difference']:+.3f} "
        f"[{record['difference_low']:+.3f}, {record['difference_high']:+.3f}] to its own template",
        f"under its own template {own['rate']:.3f} [{own['low']:.3f}, {own['high']:.3f}]",
        NOTE,
    )


def _other(format: PromptFormat) -> str:
    return LLAMA if "<|im_start|>" in str(format.tokenizer.chat_template) else CHATML


def _with(format: PromptFormat, template: str) -> PromptFormat:
    """The same tokenizer with another template, as somebody would have it by mistake."""
    tokenizer = copy.deepcopy(format.tokenizer)
    bos = tokenizer.bos_token_id
    if bos is not None and tokenizer("a")["input_ids"][:1] == [bos]:
        template = "{{ bos_token }}" + template
    tokenizer.chat_template = template
    return PromptFormat(tokenizer, format.name)


def _wins(subject: Subject, items: Items, tokens, fit: set[str]) -> tuple[np.ndarray, np.ndarray]:
    """Wins of the one score, ties one half, and the prompt of each comparison."""
    keep = [i for i, name in enumerate(items.prompts["item"].astype(str)) if name in fit]
    items, tokens = items.select(np.asarray(keep, int)), [tokens[i] for i in keep]
    scores = subject.fast(tokens)[:, -1]
    table = items.comparisons
    gaps = scores[table["better"].to_numpy(int)] - scores[table["worse"].to_numpy(int)]
    prompt = items.prompts.set_index("item").loc[table["item"], "prompt_hash"]
    return (np.sign(gaps) + 1) / 2, np.unique(prompt, return_inverse=True)[1]
