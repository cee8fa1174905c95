"""A chat template: from turns to text, as transformers renders it, and alike each time.

A template is a program of whoever made the model. So it is tried under limits before it is
used (``lib.models.trial``), one that draws at random is refused, and one that asks for
today's date gets a fixed one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime

from lib.errors import ModelError
from lib.models import trial

CLOCK = "strftime_now"  # a template's word for today's date
RANDOM = {"|random", "lipsum"}
DATE = "2024-07-26"  # that Llama 3.1's template falls back to


class RenderError(ValueError):
    """A chat template refused a conversation; the reason is the message."""


class Template:
    """The chat template of a tokenizer; ``date`` is empty for one that asks for none.

    Parameters
    ----------
    tokenizer, name
        The tokenizer, and the model's name for error messages.
    day
        What a template that writes today's date writes in its place; ``DATE`` when ``None``.
    conversations
        That it is tried with.

    Raises
    ------
    ModelError
        Without a template, with one that goes on and on or draws at random, or for a date
        that is none.
    """

    def __init__(self, tokenizer, name: str, day: str | None, conversations: Sequence[list[dict]]):
        if not getattr(tokenizer, "chat_template", None):
            raise ModelError(
                f"a chat template on the tokenizer of {name}",
                "none",
                "Set tokenizer.chat_template to the template it was trained with, or save "
                "it as chat_template.jinja beside the tokenizer.",
            )
        written = day_of(DATE if day is None else day)
        if wrong := trial.fault(*_program(tokenizer), conversations):
            raise ModelError(
                f"a chat template of {name} that renders any conversation in bounds of time, "
                "memory and length",
                wrong,
                "Give the tokenizer another template.",
            )
        asked = _asked_for(tokenizer)
        if drawn := sorted(asked & RANDOM):
            raise ModelError(
                f"a chat template of {name} that writes the same each time",
                f"one that draws at random ({', '.join(drawn)})",
                "Give the tokenizer a template without it.",
            )
        self.date = written.date().isoformat() if CLOCK in asked else ""
        self._clock = {CLOCK: written.strftime} if self.date else {}
        self._tokenizer = tokenizer

    def writer(self) -> Callable[[list[dict], bool], str]:
        """What renders turns, with the header that opens a response or without.

        For turns of plain text the compiled template itself, which ``apply_chat_template``
        copies them for.
        """
        tokenizer = self._tokenizer

        def apply(turns: list[dict], header: bool) -> str:
            with _set(tokenizer, self._clock):
                return tokenizer.apply_chat_template(
                    turns, tokenize=False, add_generation_prompt=header
                )

        compiled = _compiled(tokenizer)
        if compiled is None:
            return apply
        variables = {"tools": None, "documents": None, **tokenizer.special_tokens_map}
        variables |= self._clock

        def write(turns: list[dict], header: bool) -> str:
            if not turns or not all(map(_is_plain, turns)):
                return apply(turns, header)
            return compiled.render(variables, messages=turns, add_generation_prompt=header)

        return write


def rendered(write, asked: Sequence[tuple[list[dict], bool]]) -> list[str] | RenderError:
    """The text of each conversation, or why the template refuses one of them."""
    try:
        return [write(turns, header) for turns, header in asked]
    except Exception as error:  # templates raise Jinja errors of many kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return RenderError(reason[:200])


def day_of(text: str) -> datetime:
    """The day of a date as text; a ``ModelError`` where it is none."""
    try:
        return datetime.fromisoformat(f"{date.fromisoformat(text)}")
    except (TypeError, ValueError):
        raise ModelError(f"a date such as {DATE}", repr(text), "Write year-month-day.") from None


def _compiled(tokenizer):
    """The tokenizer's template, compiled; ``None`` where it renders in a way of its own."""
    from transformers import PreTrainedTokenizerBase

    try:
        from transformers.utils.chat_template_utils import _compile_jinja_template
    except ImportError:  # not public, so it may go
        return None
    if type(tokenizer).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template:
        return None
    try:
        return _compile_jinja_template(tokenizer.get_chat_template())
    except Exception:  # a broken template: apply_chat_template says so for each item
        return None


@contextmanager
def _set(tokenizer, names: Mapping) -> Iterator[None]:
    """Let its template mean these by names of transformers' own inside: no option does."""
    if not names:
        yield
        return
    from transformers.utils.chat_template_utils import _compile_jinja_template

    known = _compile_jinja_template(tokenizer.get_chat_template()).globals
    before = {name: known[name] for name in names}
    known.update(names)
    try:
        yield
    finally:
        known.update(before)


def _asked_for(tokenizer) -> set[str]:
    """Variables and filters that its template uses; of one that isn't parsed, the clock alone."""
    from jinja2 import nodes

    compiled = _compiled(tokenizer)
    if compiled is None:
        return {CLOCK} & set(re.findall(r"\w+", str(tokenizer.chat_template)))
    tree = compiled.environment.parse(tokenizer.get_chat_template())
    names = {node.name for node in tree.find_all(nodes.Name) if node.ctx == "load"}
    return names | {f"|{node.name}" for node in tree.find_all(nodes.Filter)}


def _program(tokenizer) -> tuple[str, dict[str, str]]:
    """Its template, and the special tokens that this one's variables hold."""
    try:
        template = tokenizer.get_chat_template()
    except Exception:  # of several none is the default: rendering says so
        template = tokenizer.chat_template
    special = getattr(tokenizer, "special_tokens_map", {})
    return str(template), {name: str(token) for name, token in special.items()}


def _is_plain(turn: dict) -> bool:
    return turn.keys() == {"role", "content"} and type(turn["role"]) is type(turn["content"]) is str
