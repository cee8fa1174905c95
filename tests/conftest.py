"""Fixtures shared by the tests."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from xdist.scheduler import LoadFileScheduling

os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Tests mean the same under `make test`, whose settings reach every program that they start;
# those find what others compiled.
for name in [n for n in os.environ if n.startswith(("MAKE", "MFLAGS", "AUDIT_"))]:
    del os.environ[name]
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What is imported lasts as long as the tests: none of it is garbage to look for, over and over.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator:
    """Every second worker collects from the end: each compiles half of the tests for both."""
    report = yield
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    if isinstance(collector, pytest.Directory) and int(worker.removeprefix("gw")) % 2:
        report.result = report.result[::-1]
    return report


FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update"]

# One turn is <|im_start|>role, a newline, the text and <|im_end|>, then a newline.
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


# ---- Which tests come first when all are run ----

# A worker takes whole files, and these take minutes: they begin first, so that none ends long
# before the other. The book is built at the very start, by two processes of its own.
FIRST = (
    "book/test_site.py",
    "book/test_kills.py",
    "book/test_steady.py",
    "book/test_audit.py",
    "book/test_reference_pages.py",
    "calibration/test_calibration.py",
    "book/test_scatter.py",
    "extraction/test_workers.py",
    "book/test_committed_runs.py",
    "book/test_findings.py",
)
# Tests that workers take one by one: they fill the time that is left.
SINGLY = ("book/test_browser.py", "notebooks/test_odd_models.py")


def _file(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).as_posix()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A browser that was opened keeps an event loop in its process: other tests come before.
    browser = {_file(item) for item in items if "chromium" in getattr(item, "fixturenames", ())}
    rank = {name: place for place, name in enumerate(FIRST)}

    def place(item: pytest.Item) -> tuple[bool, bool, int, tuple[str, ...]]:
        name = _file(item)
        return name in browser, name in SINGLY, rank.get(name, len(FIRST)), item.path.parts

    items.sort(key=place)


class _Units(LoadFileScheduling):
    """Files as they come, but for those whose tests are taken one by one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if file.endswith(SINGLY) else file


def pytest_xdist_make_scheduler(config, log):
    return _Units(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def assert_rendered():
    """Compares all sentences of a page with a file beside the test: ``check(path, *parts)``.

    A part is a list of sentences, or values by their names; one a line, an empty line between
    parts. ``GOLDEN=write python -m pytest tests -k rendering`` writes the files again; read their
    difference before it is committed.
    """

    def check(path: Path, *parts: list[str] | dict[str, str]) -> None:
        blocks = [
            "\n".join(f"{k}: {v}" for k, v in part.items())
            if isinstance(part, dict)
            else "\n".join(part)
            for part in parts
        ]
        text = "\n\n".join(blocks) + "\n"
        assert not re.search(r"\b(nan|None)\b", text)
        if os.environ.get("GOLDEN") == "write":
            path.write_text(text, encoding="utf-8")
        assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()

    return check


@pytest.fixture(scope="session")
def made_once(tmp_path_factory, worker_id):
    """Folders that tests only read, made once for all workers: ``made_once(name, make)``.

    ``make`` is given a folder to fill; who comes meanwhile waits for it.
    """
    root = tmp_path_factory.getbasetemp()
    root = root if worker_id == "master" else root.parent

    def made(name: str, make: Callable[[Path], None]) -> Path:
        folder = root / "made once" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        done = folder.with_name(f"{name} is done")
        with FileLock(folder.with_name(f"{name}.lock")):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real preference files, where they lie beside the checkout or under PREFERENCE_DATA."""
    given = os.environ.get("PREFERENCE_DATA")
    folder = Path(given) if given else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real preference files: set PREFERENCE_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def write_tiny():
    """The module that writes tiny checkpoints in the layouts that are released."""
    spec = importlib.util.spec_from_file_location("tiny", Path(__file__).parent / "models/tiny.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def planted_once():
    """Worlds of the page on published claims, which depend on figures alone, made once for each."""
    from lib.summary.published import planted

    known = {}

    def evidence(figures, *, seed: int):
        key = repr((figures["audit"], figures["reward_lens"], seed))
        if key not in known:
            known[key] = planted.planted_evidence(figures, seed=seed)
        return dict(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lib.summary.published.tables.planted_evidence", evidence)
        yield


@pytest.fixture(scope="session")
def embedded():
    """The embedded backbone and its tokenizer, loaded once: ``(transformer, tokenizer)``."""
    from lib.models.backbone import load_embedded

    return load_embedded()


@pytest.fixture(scope="session")
def embedded_tokenizer():
    """The embedded backbone's tokenizer, without the backbone."""
    from transformers import AutoTokenizer

    from lib.models.backbone import dequantised

    return AutoTokenizer.from_pretrained(dequantised())


@pytest.fixture(scope="session")
def byte_tokenizer():
    """Makes tokenizers of one token a byte, with the special tokens of ChatML.

    ``byte_tokenizer(template)`` has that chat template; ``None`` gives it none. With
    ``adds_bos`` the tokenizer puts one in front of every text, as Llama's does.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    def make(template: str | None = CHATML, adds_bos: bool = False):
        special = ["<s>", "<|im_start|>", "<|im_end|>"]
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocabulary = {token: i for i, token in enumerate([*special, *alphabet])}
        backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.decoder = decoders.ByteLevel()
        backend.add_special_tokens(special)
        if adds_bos:
            backend.post_processor = processors.TemplateProcessing(
                single="<s> $A", special_tokens=[("<s>", 0)]
            )
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=backend, bos_token="<s>", pad_token="<|im_end|>"
        )
        tokenizer.chat_template = template
        return tokenizer

    return make


@pytest.fixture(scope="session")
def tiny_llama():
    """Makes Llamas of two layers and 32 features with random weights.

    The weights are wide, so that attention is sharp and a token that is seen by mistake
    moves every state.
    """
    import torch
    from transformers import LlamaConfig, LlamaModel

    def make(seed: int = 0, **options):
        torch.manual_seed(seed)
        config = LlamaConfig(
            **{
                "vocab_size": 259,
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "max_position_embeddings": 512,
                "initializer_range": 0.3,
                **options,
            }
        )
        return LlamaModel(config).eval().requires_grad_(False)

    return make


@pytest.fixture(scope="session")
def tiny_model(byte_tokenizer, tiny_llama):
    """A reward model of two random heads, ``first`` and ``second``, on a tiny Llama."""
    from lib.models import Head
    from lib.models.frozen import FrozenHeads
    from lib.models.prompt import PromptFormat

    generator = np.random.default_rng(0)
    return FrozenHeads(
        name="tiny",
        heads=[Head("first", "made up", "helpfulness"), Head("second", "made up")],
        backbone=tiny_llama(),
        format=PromptFormat(byte_tokenizer(), "tiny", "<|im_end|>"),
        weight=generator.standard_normal((2, 32)).astype(np.float32),
        bias=np.asarray([0.5, -1.0], np.float32),
        trained_on=frozenset(),
        card={},
    )


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """Headless Chromium, opened once: its driver can't be started twice in a process."""
    from playwright.sync_api import sync_playwright

    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        pytest.skip("no Chromium on this machine: make browser installs it on Debian")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield opened
        opened.close()
