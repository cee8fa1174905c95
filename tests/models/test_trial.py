"""A chat template that doesn't end, or floods, is refused before it is compiled here."""

import time

import pytest
from tiny import ALWAYS_OPENS, CHATML, LLAMA, MISTRAL

from lib.errors import ModelError
from lib.models import trial
from lib.models.prompt import PromptFormat

LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        (LOOP, "seconds"),
        ("{% set x = 9 ** (9 ** 9) %}", "seconds"),  # while it is compiled
        ("{{ 'a' * 10 ** 10 }}", "memory"),
        ("{% set n = 10 ** 10 %}{{ ('a' * n) | length }}", "memory"),
        ("{{ 'a' * 10 ** 7 }}", "characters"),
        ("{% if messages | length > 100 %}" + LOOP + "{% endif %}", "seconds"),
        ("{% for a in messages[0].content %}" * 2 + "{% endfor %}" * 2, "seconds"),
        ("{% for a in messages %}" * 4 + "x" + "{% endfor %}" * 4, "seconds|characters|memory"),
    ],
)
def test_a_template_without_end_is_refused(byte_tokenizer, monkeypatch, extra, found):
    monkeypatch.setattr(trial, "SECONDS", 1)
    started = time.monotonic()
    with pytest.raises(ModelError, match=found):
        PromptFormat(byte_tokenizer(CHATML + extra), "evil")
    assert time.monotonic() - started < trial.WAIT + 10


@pytest.mark.parametrize("template", [CHATML, LLAMA, MISTRAL, ALWAYS_OPENS])
def test_a_template_as_they_are_released_passes_at_once(template):
    trial._fault.cache_clear()
    started = time.process_time()
    assert trial.fault(template, {"bos_token": "<s>", "eos_token": "</s>"}, []) == ""
    assert time.process_time() - started < 1


def test_an_error_of_a_template_is_no_fault_of_this_kind():
    assert trial.fault("{{ raise_exception('no') }}", {}, []) == ""
    assert trial.fault("{% if %}", {}, []) == ""


def test_what_cannot_be_tried_does_not_pass(monkeypatch):
    def broken(*command, **options):
        return trial.subprocess.CompletedProcess(command, 1, b"", b"ModuleNotFoundError: jinja2")

    monkeypatch.setattr(trial.subprocess, "run", broken)
    assert trial.fault("{{ messages }} never tried before", {}, []) == "one that can't be tried"


def test_a_template_is_tried_once(byte_tokenizer, monkeypatch):
    PromptFormat(byte_tokenizer(CHATML), "one")
    monkeypatch.setattr(trial.subprocess, "run", lambda *_, **__: pytest.fail("tried again"))
    PromptFormat(byte_tokenizer(CHATML), "two")


def test_without_limits_of_the_system_the_clock_ends_it(monkeypatch):
    monkeypatch.setattr(trial, "WAIT", 2)
    assert "2 seconds" in trial.fault(LOOP + "x", {}, [])
