"""How a row of a user's file says prompt, better and worse responses.

The layouts are those of trl's preference and unpaired preference sets, standard and
conversational, and of files with the same columns. Each reading has a rule, a sentence that
says by what prompt and response were told apart. A layout that doesn't say where the
response begins is refused.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from lib.data import hh_rlhf
from lib.errors import DataError
from lib.visible import visible

ROLES = ("system", "user", "assistant")
VALUES = ("label", "score", "rating")  # what says which of a prompt's rows is better
# Characters: arrays hold names at a fixed width, so a long one costs its length in every row.
LONGEST = 200

TEXTS = "the prompt is its own column, the responses are texts"
REPLIES = "the prompt is its own column, the responses are turns"
REPEATED = "chosen and rejected repeat the prompt; the response is their last turn"
CONTINUED = "chosen and rejected go on from the prompt; the response is their last turn"
IMPLICIT = "the prompt is the turns that chosen and rejected share; the response is their last"
DIALOGUES = "chosen and rejected are dialogues of Human and Assistant that differ in their last"
UNPAIRED = "rows of one prompt are compared by their {}"
MESSAGES = "the response is the last of the messages; rows of one prompt are compared by their {}"
PARTED = "conversations that part before their last turn"

# Columns of sets that hold no preference, or one told in another way.
OTHERS = {
    "conversations": "Turns of ShareGPT: write 'role' and 'content' for 'from' and 'value', and "
    "name the columns prompt, chosen, rejected.",
    "completions": "Stepwise supervision (completions, labels) holds no preference.",
    "messages": "Messages need a label, a score or a rating a row, or chosen and rejected.",
    "completion": "Completions need a prompt, and a label, a score or a rating.",
    "text": "A set of texts for language modelling holds no preference.",
}


MEND = "Mend or remove the row."


class Told(NamedTuple):
    """A row's prompt (a text or turns), its texts, and the rule by which they were told apart."""

    rule: str
    prompt: str | list[dict]
    chosen: list[str]
    rejected: list[str]


def unpaired(row: Mapping, where: str) -> str:
    """The column that rows are compared by; empty where a row holds a pair.

    A ``DataError`` for columns that say neither, naming what they are where that is known.
    """
    if not ("chosen" in row or "rejected" in row):
        value = next((name for name in VALUES if name in row), "")
        if value and ("messages" in row or {"prompt", "completion"} <= row.keys()):
            return value
    pairs = "chosen" in row and "rejected" in row and _is_whole(row["chosen"])
    needed = ("chosen", "rejected") if pairs else ("prompt", "chosen", "rejected")
    absent = [column for column in needed if column not in row]
    if absent:
        remedy = next((said for name, said in OTHERS.items() if name in row), "")
        raise DataError(
            f"a {' and a '.join(absent)} column in {where}",
            f"the columns {', '.join(repr(visible(str(name)[:80])) for name in row)}"
            if row
            else "no columns",
            f"{remedy} Name the columns prompt, chosen, rejected.".strip(),
        )
    return ""


def _is_whole(value) -> bool:
    """A conversation rather than a response."""
    return _is_turns(value) or (isinstance(value, str) and value.startswith("\n\nHuman:"))


def pair(row: Mapping, where: str) -> Told | str:
    """What a row with chosen and rejected says, or why it is left out; errors name the row."""
    given, chosen, rejected = row.get("prompt"), row.get("chosen"), row.get("rejected")
    system = row.get("system")
    if _is_turns(chosen) or _is_turns(rejected):
        found = _conversations(given, chosen, rejected, where)
    elif "prompt" not in row and _is_whole(chosen) and isinstance(rejected, str):
        found = hh_rlhf.parse_pair(chosen, rejected)
        if not isinstance(found, str):
            prompt, better, worse = found
            found = Told(DIALOGUES, prompt, [better], [worse])
    else:
        chosen, rejected = texts(chosen, "chosen", where), texts(rejected, "rejected", where)
        found = Told(TEXTS, given, chosen, rejected)
    if isinstance(found, str):
        return found
    prompt = _with_system(check_prompt(found.prompt, where), system, where)
    for column, those in (("chosen", found.chosen), ("rejected", found.rejected)):
        texts(those, column, where)
    return found._replace(prompt=prompt)


def rated(row: Mapping, value: str, where: str) -> tuple[str, str | list[dict], str, float]:
    """Rule, prompt, response and value of an unpaired row; errors name the row."""
    if "messages" in row:
        rule, those = MESSAGES, _turns(row["messages"], "messages", where)
        prompt, text = those[:-1], _reply(those, "messages", where)
    else:
        rule, prompt, text = UNPAIRED, row.get("prompt"), row.get("completion")
        if _is_turns(text):
            those = _turns(text, "completion", where)
            prompt, text = _joined(prompt, those[:-1], where), _reply(those, "completion", where)
    (text,) = texts([text], "completion", where)
    prompt = _with_system(check_prompt(prompt, where), row.get("system"), where)
    number = row.get(value)
    if isinstance(number, str):
        number = {"true": 1.0, "false": 0.0}.get(number.strip().lower(), number)
    try:
        number = float(number)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(
            f"a {value} in {where}: true, false or a number",
            _shown(row.get(value)),
            MEND,
        )
    return rule.format(value), prompt, text, number


def _conversations(given, chosen, rejected, where: str) -> Told | str:
    better, worse = _turns(chosen, "chosen", where), _turns(rejected, "rejected", where)
    texts = [_reply(better, "chosen", where)], [_reply(worse, "rejected", where)]
    if better[:-1] != worse[:-1]:
        return PARTED
    shared = better[:-1]
    if missing(given):
        if not shared:
            raise DataError(
                f"a prompt in {where}",
                "nothing before the response",
                "Add a prompt column, or the turns that come before it.",
            )
        return Told(IMPLICIT, shared, *texts)
    if not shared:
        return Told(REPLIES, given, *texts)
    joined = _joined(given, shared, where)
    return Told(REPEATED if joined == shared else CONTINUED, joined, *texts)


def _joined(given, shared: list[dict], where: str):
    """The prompt and the turns that precede a response, which may repeat it."""
    if not shared:
        return given
    asked = [turn["content"] for turn in shared if turn["role"] == "user"]
    if isinstance(given, str) and asked and given.strip() in (asked[0].strip(), asked[-1].strip()):
        return shared
    given = check_prompt(given, where)
    before = [{"role": "user", "content": given}] if isinstance(given, str) else given
    before = [{"role": turn["role"], "content": turn["content"]} for turn in before]
    if shared[: len(before)] == before:
        return shared
    if shared[0]["role"] == "assistant":
        return before + shared
    raise DataError(
        f"conversations that begin with their prompt in {where}",
        "a prompt that isn't in them",
        "Leave the prompt column out, or mend the row.",
    )


def _is_turns(value) -> bool:
    return isinstance(value, list) and any(isinstance(turn, Mapping) for turn in value)


def _turns(value, column: str, where: str) -> list[dict]:
    """Turns as role and content alone, each of a role that templates know."""
    if not _is_turns(value):
        raise DataError(
            f"a {column} in {where} of turns with role and content",
            _shown(value, "", []),
            "Write chosen and rejected in one way, and mend or remove the row.",
        )
    for turn in value:
        role = turn.get("role") if isinstance(turn, Mapping) else None
        if isinstance(turn, Mapping) and "role" not in turn and {"from", "value"} <= turn.keys():
            remedy = "Write 'role' and 'content' for 'from' and 'value'."
        elif role in ROLES and isinstance(turn.get("content"), list):
            remedy = "Write the content as one text: parts and images can't be scored."
        else:
            remedy = MEND
        if role not in ROLES or not isinstance(turn.get("content"), str):
            unknown = isinstance(role, str) and role not in ROLES
            raise DataError(
                f"a {column} in {where}: a text, or turns with a role ({', '.join(ROLES)}) "
                "and content",
                f"a turn of the role {visible(role[:80])!r}" if unknown else repr(turn)[:80],
                remedy,
            )
        encodable(turn["content"], column, where)
    return [{"role": turn["role"], "content": turn["content"]} for turn in value]


def _reply(those: list[dict], column: str, where: str) -> str:
    if those[-1]["role"] != "assistant":
        raise DataError(
            f"a {column} that ends with the assistant's turn in {where}",
            f"a last turn of the {those[-1]['role']}",
            MEND,
        )
    return those[-1]["content"]


def check_prompt(value, where: str) -> str | list[dict]:
    """A prompt as a text, or as turns that end with the user's; else a ``DataError``."""
    if isinstance(value, str) and value.strip():
        return encodable(value, "prompt", where)
    if not _is_turns(value):
        raise DataError(
            f"a prompt in {where}: a text, or turns with a role ({', '.join(ROLES)}) and content",
            _shown(value, ""),
            MEND,
        )
    turns = _turns(value, "prompt", where)
    if turns[-1]["role"] != "user":
        raise DataError(
            f"a prompt that ends with the user's turn in {where}",
            f"a last turn of the {turns[-1]['role']}",
            "Move the assistant's last turn to 'chosen' and 'rejected'.",
        )
    return turns


def _with_system(prompt, system, where: str):
    if missing(system) or system == "":
        return prompt
    if not isinstance(system, str):
        raise DataError(f"a system text in {where}", repr(system)[:80], "Mend the row.")
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    own = [turn["content"] for turn in turns if turn["role"] == "system"]
    if own and own != [system]:
        raise DataError(
            f"one system text in {where}",
            "another in the prompt than in the column",
            "Leave one of the two out.",
        )
    first = {"role": "system", "content": encodable(system, "system text", where)}
    return turns if own else [first, *turns]


def texts(value, column: str, where: str) -> list[str]:
    """Responses as a list of texts; a ``DataError`` where one is missing, empty, or no text."""
    those = value if isinstance(value, list) else [value]
    for text in those or [None]:
        if not isinstance(text, str) or not text.strip():
            raise DataError(
                f"a {column} text in {where}",
                _shown(text, ""),
                "Mend or remove the row; a tie is said by a column 'tie'.",
            )
        encodable(text, column, where)
    return those


def missing(value) -> bool:
    """Does a cell hold nothing, as JSON and data frames write it?"""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _shown(value, *nothing) -> str:
    return "nothing" if missing(value) or value in nothing else repr(value)[:80]


def name(text: str, column: str, where: str) -> str:
    """The text, where it is fit to be a name: short, on one line, and all of it seen."""
    if len(text) <= LONGEST and text.isascii() and text.isprintable():
        return text
    if len(text) > LONGEST:
        raise DataError(
            f"a {column} in {where} of at most {LONGEST} characters",
            f"{len(text)} characters",
            "Give it a shorter one.",
        )
    encodable(text, column, where)
    unseen = [c for c in text if unicodedata.category(c) == "Cc" or visible(c) != c]
    if unseen:
        raise DataError(
            f"a {column} in {where} of printable characters",
            f"the control character {unseen[0]!a} in {visible(text)!a}",
            "Remove it.",
        )
    return text


def encodable(text: str, column: str, where: str) -> str:
    """The text, where it has a UTF-8 form: JSON can spell half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"a {column} in {where} that can be written as UTF-8",
            f"half a surrogate pair at character {error.start}",
            MEND,
        ) from None
    return text
