"""Text of a hostile dataset and a hostile model is shown as itself and does nothing.

A book of four pages is made as any user's would be: heads whose names are markup, on the
embedded backbone, over a file whose prompts, responses, subsets and criteria are markup.
"""

import json
import re
from types import SimpleNamespace
from urllib.parse import quote

import nbformat
import numpy as np
import pytest
from safetensors.numpy import save_file

from lib import extract, load_items, load_model, paths
from lib.extraction import save_run

pytestmark = pytest.mark.slow

ATTACKS = {
    "script": "<script>window.struck = 1; alert(1)</script>",
    "image": "<img src=x onerror='window.struck = 2; alert(2)'>",
    "textarea": "</textarea></td></table></details></dl></figure>",
    "closed script": "</script><script>window.struck = 3</script><!-- <script>",
    "template": "{{ cycler.__init__.__globals__ }} {% raw %} {# x #}",
    "formula": r"$$\href{javascript:window.struck=4}{x}$$ \(y\) $z$",
    "rule": "a\n---\n# A heading\n\n```{code-cell}\nwindow.struck\n```",
    "link": "[x](javascript:window.struck=5) ![y](https://example.org/y.png) https://example.org",
    "role": "{glue:text}`verdict` {raw:html}`<b>` {doc}`/index` |substitution|",
    "quotes": "\"onmouseover='window.struck=6' `'\" && \\u003cscript\\u003e",
    "direction": "\u202eevil\u202c \u2066x\u2069 \u200fy",
    "control": "\x1b[31mred\x1b[0m \x07\x08 \x1b]8;;https://example.org\x07link\x1b]8;;\x07",
    "separator": "one\u2028two\u2029three",
}
# A model's card may hold printable names only; the rest reaches a page by the data alone.
HEADS = [text.replace("\n", " ") for text in ATTACKS.values()]
HEADS = [text for text in HEADS if text.isprintable()]
NOTEBOOKS = ("data", "validity", "disentanglement", "model")
FEATURES = 576  # of the embedded backbone


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder of heads and a file of pairs."""
    root = tmp_path_factory.mktemp("<b>$$x$$ {{y}} [z](q)")
    folder = root / "<script> $$model$$ {{z}}"
    folder.mkdir()
    heads = [{"name": name, "source": name, "concept": name} for name in HEADS]
    card = {"name": HEADS[0], "heads": heads, "split": {"rule": HEADS[0], "train": []}}
    (folder / "card.json").write_text(json.dumps(card))
    generator = np.random.default_rng(0)
    weight = generator.standard_normal((len(HEADS), FEATURES)).astype(np.float32)
    save_file(
        {"weight": weight, "bias": np.zeros(len(HEADS), np.float32)}, folder / "heads.safetensors"
    )
    texts = list(ATTACKS.values())
    rows = [
        {
            "prompt": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": texts[i - 1]},
                {"role": "user", "content": texts[i - 2] + text},
            ],
            "chosen": text + texts[i - 1],
            "rejected": texts[i - 3],
            "subset": texts[i % 3],
            "criterion": HEADS[i % len(HEADS)],  # names that don't print are refused
        }
        for i, text in enumerate(texts)
    ]
    rows += [{"prompt": f"short {i}", "chosen": f"yes {i}", "rejected": "no"} for i in range(6)]
    rows.append({"prompt": "one line", "chosen": "<b>" * 350_000, "rejected": "no"})
    file = root / "<img src=x onerror=alert(7)> $$a$$ {{b}}.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return folder, file


@pytest.fixture(scope="module")
def book(hostile, small_book, execute, tmp_path_factory):
    folder, file = hostile
    made = tmp_path_factory.mktemp("pages")
    given = {"model": str(folder), "dataset": f"file:{file}"}
    run = extract(load_model(given["model"]), load_items(given["dataset"]))
    save_run(run, made / "run")
    for notebook in NOTEBOOKS:
        title = HEADS[0] if notebook == "model" else given["dataset"]
        # Without a run the page has the text at hand, and shows examples of it.
        read = {} if notebook == "data" else {"run": str(made / "run")}
        execute(notebook, made / f"{notebook}.ipynb", given | read, title)
    return small_book(
        "# Hostile\n\nText.\n", {f"m/{name}": made / f"{name}.ipynb" for name in NOTEBOOKS}
    )


def place(book, notebook):
    return book / "book" / "results" / "m" / f"{notebook}.html"


@pytest.fixture(scope="module")
def read(book, visit):
    """What is found on the page of a notebook, and has happened there, in one visit."""
    known = {}

    def find(notebook: str) -> SimpleNamespace:
        if notebook not in known:
            known[notebook] = found_on(*visit(place(book, notebook)))
        return known[notebook]

    return find


# What closes early leaves the rest of the page outside the article.
WHOLE = """() => {
  const all = (query) => [...document.querySelectorAll(query)];
  const texts = (query) => all(query).map((e) => e.textContent);
  return {
    inside: all("details.provenance, section").every((e) => e.closest("article.bd-article")),
    provenance: all("article details.provenance").length,
    footers: all("footer.bd-footer").length,
    headings: texts("article :is(h1, h2)"),
    states: all(".chart-view").map((e) => e.dataset.state),
    formulas: all("article math, article mjx-container, article hr").length,
    size: document.documentElement.innerHTML.length,
    heads: texts("table.result td:first-child"),
    examples: texts(".examples dd"),
    name: document.querySelector("article h1").innerText,
    title: document.title,
    figures: all("figure.chart").length,
  };
}"""
STRUCK = """() => {
  const all = (query) => [...document.querySelectorAll(query)];
  return {
    struck: window.struck ?? null,
    handlers: all("[onerror], [onmouseover]").length,
    links: all('a[href^="javascript:"]').length,
    scripts: all(".output script").map((script) => script.text),
  };
}"""


def found_on(tab, said) -> SimpleNamespace:
    for view in tab.locator(".chart-view").all():
        view.locator("svg").first.wait_for(state="attached", timeout=30_000)
    found = tab.evaluate(WHOLE)
    screen = tab.viewport_size
    tab.set_viewport_size({"width": 390, "height": 844})
    wait = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    found["width"] = tab.evaluate(f"{wait}.then(() => document.documentElement.scrollWidth)")
    tab.set_viewport_size(screen)
    # Folded parts too, and what a pointer over a chart brings up.
    tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for view in tab.locator(".chart-view svg").all():
        view.hover(force=True)
    tab.wait_for_timeout(300)
    return SimpleNamespace(**found, **tab.evaluate(STRUCK), said=list(said))


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_nothing_of_it_runs(read, notebook):
    found = read(notebook)
    assert found.said == []
    assert found.struck is None
    assert found.handlers == found.links == 0
    assert len(found.scripts) == found.figures
    assert all(text.startswith("(window.rewardCharts=") for text in found.scripts)


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_the_page_stays_whole(read, notebook):
    found = read(notebook)
    assert found.inside
    assert found.provenance == found.footers == 1
    assert found.headings and not any("A heading" in text for text in found.headings)
    assert set(found.states) <= {"drawn"}
    assert found.formulas == 0
    assert found.size < 600_000


def test_names_of_heads_are_shown_as_themselves(read):
    assert set(HEADS) <= set(read("validity").heads)


def test_prompts_and_responses_are_shown_as_themselves(read):
    shown = "\n".join(read("data").examples)
    known = [shown_text(text) for text in ATTACKS.values()]
    assert sum(text in shown for text in known) >= 4


def shown_text(text: str) -> str:
    """Control codes by their pictures, direction marks by name, as the page shows them."""
    text = re.sub(r"[\x00-\x09\x0b-\x1f]", lambda m: chr(0x2400 + ord(m[0])), text)
    return re.sub("[\u200f\u202e\u202c\u2066\u2069]", lambda m: f"[U+{ord(m[0]):04X}]", text)


def test_the_title_is_text(read):
    found = read("model")
    assert HEADS[0] in found.name
    assert HEADS[0] in found.title


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_a_phone_needs_no_sideways_scroll(read, notebook):
    assert read(notebook).width <= 390


def test_the_search_shows_it_as_text(book, read, visit):
    title = read("data").headings[0].rstrip("#")
    # A title is found as a whole when the query is at least half as long; else by its words.
    for query in (title, "onerror", "window"):
        tab, said = visit(book / "search.html", f"?q={quote(query)}")
        results = tab.locator("#search-results li")
        results.first.wait_for(timeout=30_000)
        tab.wait_for_timeout(1000)
        assert said == [] and tab.evaluate("window.struck") is None
        assert not results.locator("img, script, b").count()
        assert query != title or title in results.all_text_contents()


def test_executed_pages_hold_no_control_codes(book):
    for notebook in NOTEBOOKS:
        path = book / "_sources" / "book" / "results" / "m" / f"{notebook}.ipynb"
        executed = nbformat.read(path, as_version=4)
        outputs = [
            text
            for cell in executed.cells
            for output in cell.get("outputs", ())
            for kind, text in output.get("data", {}).items()
            if kind == "text/html"
        ]
        assert outputs and not re.search("[\x00-\x08\x0b-\x1f\u202e]", "".join(outputs))


def test_no_file_is_named_by_it(book):
    names = [path.name for path in book.rglob("*")]
    assert "validity.html" in names
    assert not [name for name in names if "<" in name or "{{" in name or "$" in name]
    assert paths.slug("<img src=x>/../..").count("/") == 0
