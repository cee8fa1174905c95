"""Whether a chat template comes to an end, tried in a process of its own.

A template is a program of whoever made the model. Jinja's sandbox keeps it from files and
from Python, not from looping for ever or from filling the memory, some of it while it is
compiled. So before it is compiled here, a child compiles it and renders conversations of all
kinds under limits. Where the system sets none on memory (Windows, macOS) the limit of time
and that of length hold alone.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Sequence

SECONDS = 5  # of the processor
WAIT = 60  # seconds of the clock, where the machine is busy or limits no processor time
MEMORY = 1 << 30  # bytes
LENGTH, TIMES = 200_000, 8  # characters of a rendered text, and so many for each of its turns'
TOO_MUCH, TOO_LONG = 3, 4  # statuses of the child
_TURN = "Then say it again, in other words, and tell me what you left out. "
MANY = [{"role": role, "content": _TURN} for _ in range(200) for role in ("user", "assistant")]


def fault(template: str, tokens: dict[str, str], conversations: Sequence[list[dict]]) -> str:
    """What is wrong with a template, in words; empty when every rendering ended in bounds.

    ``tokens`` are the texts of special tokens, its variables; ``conversations`` are rendered
    beside one of many turns. An error of the template is no fault: it comes at once, and is
    told where it does.
    """
    return _fault(json.dumps([template, tokens, [*conversations, MANY], SECONDS]))


@functools.lru_cache(maxsize=64)
def _fault(given: str) -> str:
    try:
        # Without the folder of this file, whose modules have names of others.
        done = subprocess.run(
            [sys.executable, "-P", __file__],
            input=given.encode(),
            capture_output=True,
            timeout=WAIT,
        )
    except subprocess.TimeoutExpired:
        return f"one that wasn't done after {WAIT} seconds"
    if done.returncode == TOO_MUCH:
        return f"one that takes more than {MEMORY >> 30} GiB of memory"
    if done.returncode == TOO_LONG:
        return f"one that writes {done.stdout.decode()}"
    if done.returncode < 0:
        import signal

        timed = -done.returncode == getattr(signal, "SIGXCPU", 0)
        return f"one that wasn't done after {SECONDS} seconds" if timed else "one that crashes"
    return "" if done.returncode == 0 else "one that can't be tried"


def _limit(seconds: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):  # a system that sets no such limit
        pass


def _compiled(template: str):
    """As transformers compiles it."""
    from datetime import datetime

    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.CallBlock(self.call_method("_as_it_is"), [], [], body).set_lineno(line)

        def _as_it_is(self, caller):
            return caller()

    def refuse(message):
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **how: json.dumps(
        value, **{"ensure_ascii": False, **how}
    )
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda how: datetime.now().strftime(how)
    return environment.from_string(template)


def _main() -> int:
    import jinja2.sandbox  # noqa: F401 - without it nothing can be tried, which isn't the template's

    template, tokens, conversations, seconds = json.load(sys.stdin)
    _limit(seconds)
    try:
        compiled = _compiled(template)
    except MemoryError:
        return TOO_MUCH
    except Exception:
        return 0
    for turns in conversations:
        longest = LENGTH + TIMES * sum(len(turn["content"]) for turn in turns)
        for header in (True, False):
            variables = {"tools": None, "documents": None, **tokens}
            try:
                text = compiled.render(variables, messages=turns, add_generation_prompt=header)
            except MemoryError:
                return TOO_MUCH
            except Exception:  # of many kinds; it is the template's own word
                continue
            if len(text) > longest:
                print(f"{len(text):,} characters for {longest - LENGTH >> 3:,}", end="")
                return TOO_LONG
    return 0


if __name__ == "__main__":
    sys.exit(_main())
