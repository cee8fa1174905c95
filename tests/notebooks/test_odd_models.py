"""Every page on models and data it wasn't written for: a sentence, never a crash or a bare NaN.

Cells run in this process, in order, as papermill would give them their parameters.
"""

import ast
import json
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

import nbformat
import numpy as np
import pytest

from lib import extract, load_items, load_model, paths, report
from lib.analyses.separability import stats as separability
from lib.book import applies, pages, plan
from lib.data import published
from lib.extraction import save_run
from lib.mechanisms.disk import save_effects
from lib.mechanisms.effects import effects
from lib.summary.published import claims

RAN = [
    name
    for name in plan.notebooks()
    if {"run", "runs"} & set(pages.declared(name)) or name == "model"
]
EXPLAINED = [name for name in plan.notebooks() if applies.explains(name)]
DATASET = "stimuli/controlled"
ODD_MODELS = ("nineteen", "single", "sparse", "collapsed")
FEW = {
    separability.separability_as_published: {"components": (10, separability.PUBLISHED)},
    separability.probes: {"flips": 4, "repeats": 2},
    separability.readout: {"flips": 4, "repeats": 2, "plants": 2},
}
SPARSE = ("sarm", "steering")  # pages on rewards of sparse features


@dataclass
class Shown:
    """What a page showed, as HTML, and the values it kept for other pages."""

    html: list[str] = field(default_factory=list)
    glued: dict[str, object] = field(default_factory=dict)

    def add(self, *values) -> None:
        for value in values:
            if value is not None:
                bundle = getattr(value, "_repr_mimebundle_", lambda: {})()
                markup = getattr(value, "_repr_html_", lambda: None)()
                self.html.append(markup or bundle.get("text/html") or repr(value))

    @property
    def text(self) -> str:
        """Without scripts, and without how the page was made, which repeats paths."""
        kept = [part for part in self.html if 'class="provenance"' not in part]
        return re.sub(r"<script>.*?</script>", "", " ".join(kept), flags=re.DOTALL)

    @property
    def sentences(self) -> list[str]:
        return [s for part in self.html for s in re.findall(r"<li>(.*?)</li>", part)]


@pytest.fixture(scope="session")
def read_once():
    """What pages of one process read alike, read once: texts, claims, versions, the commit."""
    with pytest.MonkeyPatch.context() as patch:
        for name, read in {
            "lib.report.load_items": load_items,
            "lib.report._commit": report._commit,
            "lib.report.version": version,
            "lib.models.identity.version": version,
            "lib.data.published.figures": published.figures,
            "lib.summary.published.claims.read": claims.read,
        }.items():
            patch.setattr(name, cache(read))
        yield


@pytest.fixture(scope="session")
def few_draws():
    """Draws that move numbers, and no sentence's being there, are few."""
    with pytest.MonkeyPatch.context() as patch:
        for function, few in FEW.items():
            for name, value in few.items():
                patch.setitem(function.__kwdefaults__, name, value)
        yield


@pytest.fixture
def run_page(monkeypatch, planted_once, read_once, few_draws):
    """Executes a notebook's cells: ``run_page(name, **parameters)`` is what it showed."""

    def execute(name: str, **given) -> Shown:
        shown = Shown()
        monkeypatch.setattr(
            "myst_nb.glue", lambda key, value, display: shown.glued.update({key: value})
        )
        cells = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
        namespace = {"In": [], "display": shown.add}
        for cell in (cell for cell in cells if cell.cell_type == "code"):
            namespace["In"].append(cell.source)
            tree = ast.parse(cell.source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), namespace)
            if last is not None:
                shown.add(eval(compile(ast.Expression(last.value), name, "eval"), namespace))
            if "parameters" in cell.metadata.get("tags", []):
                namespace.update(given)
                injected = [f"{key} = {value!r}" for key, value in given.items()]
                namespace["In"].append("\n".join(["# Parameters", *injected]))
        return shown

    return execute


def parameters(name: str, model: str, folder: Path, dataset: str = DATASET) -> dict:
    given = {"model": model, "dataset": dataset, "run": str(folder), "runs": [str(folder)]}
    return {key: value for key, value in given.items() if key in pages.declared(name)}


def check(shown: Shown) -> None:
    assert shown.html
    text = shown.text
    stray = re.search(r"\b(?:nan|NaN|inf|None)\b", text)
    assert stray is None, text[max(0, stray.start() - 60) : stray.end() + 20]
    for key, value in shown.glued.items():
        assert not re.search(r"\bnan\b", str(value)), (key, value)


# ---- Odd models ----


@pytest.fixture(scope="session")
def odd_models(made_once, write_tiny):
    """Tiny checkpoints: ArmoRM's nineteen heads with a gate, a classifier of one label, and SARM's
    reward of sparse features, with its flag on and off.
    """

    def make(root: Path) -> None:
        write_tiny.write_armorm(root / "nineteen", max_position_embeddings=4096)
        write_tiny.write_classifier(root / "single", max_position_embeddings=4096)
        for name, topk in (("sparse", True), ("collapsed", False)):
            write_tiny.write_sarm(root / name, topk, max_position_embeddings=4096)

    return made_once("odd models", make)


@pytest.fixture(scope="session")
def odd_runs(odd_models, made_once):
    """Folders of their runs on some stimuli."""

    def make(root: Path) -> None:
        for name in ODD_MODELS:
            model = load_model(str(odd_models / name), device="cpu")
            run = extract(model, load_items(DATASET, limit=40), store=root / "states" / name)
            save_run(run, root / name)

    return made_once("odd runs", make)


@pytest.mark.slow
@pytest.mark.parametrize("name", RAN)
@pytest.mark.parametrize("model", ["nineteen", "single", "sparse"])
def test_a_page_runs_on_an_odd_model(odd_models, odd_runs, run_page, model, name):
    shown = run_page(name, **parameters(name, str(odd_models / model), odd_runs / model))
    check(shown)
    if not applies.suits(name, applies.of_run(odd_runs / model)):
        assert shown.sentences


@pytest.fixture(scope="session")
def odd_effects(odd_models, made_once):
    """Folders of effects of their parts, of few comparisons and of one."""

    def make(root: Path) -> None:
        for name in ("nineteen", "single"):
            model = load_model(str(odd_models / name), device="cpu")
            for many in (1, 12):
                some = load_items(DATASET, limit=many)
                store = root / "patches" / f"{name}-{many}"
                apart = name == "single"
                found = effects(model, some, patched=6, attention_heads=apart, store=store)
                save_effects(found, root / str(many) / name)

    return made_once("odd effects", make)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPLAINED)
@pytest.mark.parametrize("many", [1, 12])
@pytest.mark.parametrize("model", ["nineteen", "single"])
def test_a_page_of_effects_runs_on_an_odd_model(
    odd_models, odd_effects, run_page, model, many, name
):
    place = {"model": str(odd_models / model), "effects": str(odd_effects / str(many) / model)}
    shown = run_page(name, dataset=DATASET, limit=many, **place)
    check(shown)
    assert shown.sentences


@pytest.mark.slow
@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("model", ["sparse", "collapsed"])
def test_pages_on_sparse_features_say_which_reward_it_is(
    odd_models, odd_runs, run_page, model, name
):
    shown = run_page(name, **parameters(name, str(odd_models / model), odd_runs / model))
    check(shown)
    assert shown.sentences and not any("Nothing can be" in each for each in shown.sentences)
    if name == "sarm":
        linear = "and is a linear head on the state" in shown.glued["answer"]
        assert linear == (model == "collapsed")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["nineteen", "single"])
def test_every_page_runs_on_an_odd_model_and_real_data(
    odd_models, run_page, shared_data, tmp_path, model
):
    loaded = load_model(str(odd_models / model), device="cpu")
    items = load_items("xstest", source=shared_data / "xstest", limit=60)
    save_run(extract(loaded, items, store=tmp_path / "states"), tmp_path / "run")
    for name in RAN:
        given = parameters(name, str(odd_models / model), tmp_path / "run", "xstest")
        check(run_page(name, **given))


@pytest.mark.slow
def test_the_shapes_of_the_odd_models_are_told_from_their_runs(odd_runs):
    assert applies.of_run(odd_runs / "nineteen") == applies.Shape(19, 8, True)
    assert applies.of_run(odd_runs / "single") == applies.Shape(1, 0, False)


# ---- Pages on which a model is chosen, on data of their own ----


@pytest.fixture(scope="session")
def choices(odd_models, made_once, write_tiny):
    """Odd models, one of hundreds of heads too, by their names."""

    def make(root: Path) -> None:
        write_tiny.write_classifier(root / "hundreds", labels=300, max_position_embeddings=4096)

    folder = made_once("odd choices", make)
    return {name: odd_models / name for name in ODD_MODELS} | {"hundreds": folder / "hundreds"}


@pytest.fixture(scope="session")
def rated(tmp_path_factory):
    """A user's own file: three rated responses to each prompt."""
    path = tmp_path_factory.mktemp("own") / "rated.jsonl"
    rows = [
        {
            "prompt": f"Question {k}: how far is the {k}th stop?",
            "chosen": [f"It is {k} miles. You can walk there.", f"About {k} miles, I think."],
            "rejected": [f"Ask somebody at stop {k}."],
            "ratings": [{"quality": 3 + k % 2}, {"quality": 2}, {"quality": 1}],
        }
        for k in range(16)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return f"file:{path}"


@pytest.mark.slow
@pytest.mark.parametrize("model", ["nineteen", "hundreds", "single"])
def test_what_chooses_a_model_runs_on_it(choices, rated, run_page, tmp_path, model):
    place = str(choices[model])
    loaded = load_model(place, device="cpu")
    audited = {"exploits": ["stimuli/exploits", f"{rated}#all"], "selection": [rated]}
    for name, datasets in audited.items():
        for number, dataset in enumerate(datasets):
            items = load_items(dataset, limit=30 if dataset.startswith("stimuli") else 0)
            folder = tmp_path / f"{name}-{number}"
            save_run(extract(loaded, items, store=tmp_path / f"states-{folder.name}"), folder)
            shown = run_page(name, **parameters(name, place, folder, dataset))
            check(shown)
            assert shown.sentences and "Nothing can be" not in shown.sentences[0]
            assert ("Manipulated" in shown.text) == ("#" in dataset)


@pytest.mark.slow
@pytest.mark.parametrize("other", ["nineteen", "hundreds", "single"])
def test_what_compares_models_runs_on_them(choices, rated, run_page, tmp_path, other, capsys):
    from lib.summary.compare import command

    models = [str(choices[name]) for name in ("nineteen", other)]
    found = command.run(models, [rated], tables=str(tmp_path / "tables"), device="cpu")
    told = capsys.readouterr().out
    assert "nan" not in told
    row = found.differences.iloc[0]
    if other == "nineteen":
        assert (row["difference"], row["verdict"]) == (0, "not told apart")
    check(
        run_page("compare", models=[s.name for s in found.sides], results=str(tmp_path / "tables"))
    )


# ---- Odd data ----


def some(run, items):
    """The run with some of its items only."""
    owner = run["item_of_response"].values
    rows = np.flatnonzero(np.isin(owner, items))
    kept = np.flatnonzero(np.isin(run["better"].values, run["response"].values[rows]))
    part = run.isel(item=items, response=rows, comparison=kept)
    part["item_of_response"] = ("response", np.searchsorted(items, owner[rows]))
    return part


def changed(run, **values):
    run = run.copy(deep=True)
    for name, value in values.items():
        run[name] = (
            run[name].dims,
            np.broadcast_to(value, run[name].shape).astype(run[name].dtype),
        )
    return run


def with_scores(run, change):
    score = run["score"].values.copy()
    change(score)
    return changed(run, score=score)


ODD = {
    "one comparison": lambda run: some(run, np.arange(1)),
    "fewer prompts than folds": lambda run: some(run, np.arange(3)),
    "nothing but ties": lambda run: changed(run, score=1.0, final=1.0),
    "a constant head": lambda run: with_scores(run, lambda s: s[:, :1].fill(1)),
    "a head without numbers": lambda run: with_scores(run, lambda s: s[:, :1].fill(np.nan)),
    "an infinite score": lambda run: with_scores(run, lambda s: s[:1].fill(np.inf)),
    "some scores no numbers": lambda run: with_scores(run, lambda s: s[::3].fill(np.nan)),
    "no score a number": lambda run: changed(run, score=np.nan, final=np.nan),
    "no comparison": lambda run: run.isel(comparison=slice(0, 0)),
    "a criterion that no head claims": lambda run: changed(run, criterion="zest"),
    "no states": lambda run: changed(run, hidden=np.nan, gate_hidden=np.nan),
    "a single prompt": lambda run: changed(run, prompt_hash="x"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ODD)
def test_every_page_says_so_when_data_leave_nothing_to_say(
    odd_models, odd_runs, run_page, tmp_path, what
):
    from lib.extraction import load_run

    save_run(ODD[what](load_run(odd_runs / "nineteen")), tmp_path / "run")
    for name in RAN:
        if name != "model":
            shown = run_page(
                name, **parameters(name, str(odd_models / "nineteen"), tmp_path / "run")
            )
            check(shown)
