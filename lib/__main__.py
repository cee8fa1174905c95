"""The shell's way in: ``python -m lib COMMAND``, with the commands that ``--help`` lists."""

from __future__ import annotations

import argparse
import functools
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lib.errors import AuditError, ParameterError
from lib.refused import refused
from lib.visible import console


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors of ours are one line on stderr and exit status 1."""
    with console():
        options = _manipulating(_parser().parse_args(argv))
        try:
            return options.run(options) or 0
        except AuditError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            print(f"StoreError: {refused(error)}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("Stopped.", file=sys.stderr)
            return 130


def _manipulating(options: argparse.Namespace) -> argparse.Namespace:
    """Forms of ``--exploit`` as a part of the dataset's name."""
    from lib import manipulated

    forms = vars(options).pop("exploit", None)
    if options.name == "exploits":
        from lib.analyses.exploits.command import asked

        options.data = asked(options.data, forms)
    elif forms is not None:
        options.dataset = manipulated.joined(options.dataset, forms)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lib", description="Audit a reward model.")
    _add(parser, "COMMAND", COMMANDS)
    return parser


def _add(parser: argparse.ArgumentParser, metavar: str, commands: Mapping[str, tuple]) -> None:
    """Give a parser the commands of a table like ``COMMANDS``."""
    known = parser.add_subparsers(required=True, metavar=metavar, dest="name")
    for name, (about, run, options) in commands.items():
        command = known.add_parser(name, help=about, add_help=HELP not in options)
        if run is None:
            _add(command, "WHAT", options)
            continue
        for flag, text in options.items():
            text, given = text if isinstance(text, tuple) else (text, FLAGS.get(flag, {}))
            command.add_argument(*flag.split(", "), help=text, **given)
        command.set_defaults(run=run)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"needed NAME=VALUE, found {text!r}")
    return name, value


def _fraction(text: str) -> tuple[int, int]:
    from lib.book.document import MOST_PARTS

    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal()):
        raise argparse.ArgumentTypeError(f"needed I/N, such as 0/4; found {text!r}")
    if not 0 < int(parts) <= MOST_PARTS:
        raise argparse.ArgumentTypeError(f"needed 1 to {MOST_PARTS:,} parts; found {parts[:20]}")
    return int(part), int(parts)


def _count(text: str) -> int:
    """A whole number; nothing is 0, as when a variable of make is unset."""
    if text.strip() and not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"needed a whole number, 0 or more; found {text!r}")
    return int(text or 0)


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"needed a whole number from 1; found {text!r}")
    return int(text)


def _seed(text: str) -> int:
    from lib.parameters import SEEDS

    seed = _count(text)
    if seed not in SEEDS:
        raise argparse.ArgumentTypeError(f"needed a seed from 0 to {SEEDS[-1]}; found {text!r}")
    return seed


def _given(options, *names: str) -> dict:
    return {name: getattr(options, name) for name in names}


def _scoring(options) -> dict:
    return _given(options, *(flag.removeprefix("--") for flag in SCORING))


def _items(options):
    from lib.data import load_items

    names = ("split", "source", "limit", "seed", "order", "ties")
    return load_items(options.dataset, **_given(options, *names))


def _extract(options) -> None:
    from lib.extraction.command import score

    given = vars(options)
    score(**{name: value for name, value in given.items() if name not in ("name", "run")})


def _explain(options) -> None:
    from lib.mechanisms.command import explain

    given = vars(options)
    explain(**{name: value for name, value in given.items() if name not in ("name", "run")})


def _verify(options) -> None:
    from lib.book.audit import located
    from lib.data import load_items
    from lib.data.file import KEPT
    from lib.extraction import load_run
    from lib.extraction.verify import stamp, verify
    from lib.models import load_model

    loaded = functools.lru_cache(maxsize=1)(load_model)  # once for runs of it that follow another
    for folder in options.runs:
        run = load_run(folder)
        place = located(run.attrs["dataset"], options.source).get("source")
        ties = {"ties": "keep"} if KEPT in run.attrs["about"] else {}
        items = load_items(run.attrs["dataset"], source=place, **ties)
        date = run.attrs["extraction"].get("date")
        model = loaded(run.attrs["model"], device="cpu", date=date)
        found = verify(run, model, items, n=options.items, seed=options.seed)
        if options.stamp:
            stamp(folder, run, model, found)
        print(
            f"{folder}: the numbers of tokens of {found['items']} items and the scores of "
            f"{found['responses']} responses are those of {model.name}; the largest difference "
            f"of a score is {found['largest']:.1e} sd of its head"
        )


def _audit(options) -> None:
    from lib.book.audit import audit

    try:
        datasets = [name for text in options.datasets for name in shlex.split(text)]
    except ValueError as error:
        found = f"{' '.join(options.datasets)!r} ({error})"
        raise ParameterError("names of datasets", found, "Close each quote.") from None
    index = audit(options.model, datasets, cores=options.cores, **_scoring(options))
    print(f"The book is built. Open {index.as_uri()}")


def _check(options) -> int:
    from lib.check.command import run

    given = _given(options, "items", "seed", "quick")
    names = ("source", "reference", "training", "device", "date")
    optional = {name: value or None for name, value in _given(options, *names).items()}
    return run(options.model, json=options.json, data=options.data, **given, **optional)


def _compare(options) -> None:
    from lib.summary.compare.command import run

    page = Path(options.page) if options.page else None
    folder = str(page.absolute().with_suffix(".tables")) if page else ""
    found = run(
        options.models,
        options.datasets,
        show_text=options.show_text,
        most=options.contested,
        tables=folder,
        **_given(options, "json", "head", "fresh"),
        **_scoring(options),
    )
    if page:
        from lib.book import pages

        given = {"models": [side.name for side in found.sides], "results": folder}
        print(f"\nPage: {pages.run_page('compare', page, given)}")


def _exploits(options) -> None:
    from lib.analyses.exploits.command import run

    run(options.model, options.data, **_scoring(options))
    if options.page:
        from lib.book import pages, plan

        model = options.model
        given = {"model": plan.from_root(model) if Path(model).is_dir() else model}
        given |= {"dataset": _seen_from_root("dataset", options.data)}
        given |= {"source": _seen_from_root("source", options.source)}
        given |= _given(options, "limit", "seed")
        print(f"\nPage: {pages.run_page('exploits', options.page, given)}")


def _report(options) -> None:
    from lib.audits.command import report

    given = _given(options, "out", "json", "results", "against", "quick")
    page, beside = report(options.model, options.datasets, **given, **_scoring(options))
    print(f"Page: {page}\nVerdicts and numbers: {beside}")


def _diff(options) -> int:
    from lib.audits.command import diff

    return diff(options.old, options.new)


def _describe(options) -> None:
    import gc
    from itertools import chain

    from lib.data import stream_items
    from lib.data.describe import describe

    gc.freeze()  # what is loaded by now isn't searched for garbage after every few rows
    if options.dataset.startswith("file:") and not options.limit:
        pieces = stream_items(options.dataset, ties=options.ties)
        first = next(pieces, None)
        if first is not None:
            print(describe(chain([first], pieces)))
            return
    print(describe(_items(options)))


def _page(options) -> int:
    from lib.book import pages
    from lib.parameters import from_text

    if options.help or not options.notebook:
        print(_page_help(options.notebook))
        return 0
    known = pages.declared(options.notebook)
    given = {
        name: _seen_from_root(name, from_text(known[name], value)) if name in known else value
        for name, value in options.p
    }
    out = options.out or f"{options.notebook}.ipynb"
    print(pages.run_page(options.notebook, out, given, options.title))
    return 0


def _seen_from_root(name: str, value):
    """A path given here, as the page sees it: pages run at the root of the checkout."""
    from lib.book.plan import from_root

    if name == "dataset" and value.startswith("file:"):
        return f"file:{from_root(value.removeprefix('file:'))}"
    if name in ("source", "run", "effects", "results", "tables") and value:
        return from_root(value)
    if name == "runs":
        return [from_root(folder) for folder in value]
    return value


def _page_help(notebook: str) -> str:
    from lib.book import pages, plan

    usage = "python -m lib page NOTEBOOK --out PAGE [--title TEXT] [-p NAME=VALUE]…"
    if not notebook:
        return f"{usage}\nnotebooks: {', '.join(plan.notebooks())}"
    lines = [
        f"  {p.name}: {p.type} = {p.default!r}\n      {p.meaning}"
        for p in pages.declared(notebook).values()
    ]
    return "\n".join([usage, f"parameters of {notebook}:", *lines])


def _toc(options) -> None:
    from lib import paths
    from lib.book import toc

    if not options.check:
        toc.write()
    elif not paths.TOC.exists() or paths.TOC.read_text(encoding="utf-8") != toc.render():
        needed = "_toc.yml as audit.yml and the notebooks give it"
        raise ParameterError(needed, "another", "Write it: python -m lib toc")


def _site(options) -> None:
    from lib.book.build import render

    print(render())


def _build(options) -> None:
    from lib.book.build import build

    index = build(options.cores)
    print(f"The book is built. Open {index.as_uri()}")


def _sourced(text: str) -> tuple[str, str | None]:
    name, _, source = text.partition("=")
    return name, source or None


def _train_armorm(options) -> None:
    from lib.models import load_model
    from lib.training import armorm

    model = load_model(options.model)
    given = _given(options, "remove", "limit", "seed", "published_axis")
    trained = armorm.train(model, dict(options.ratings), dict(options.preferences), **given)
    folder = armorm.save(trained, model, options.out)
    print(
        f"{len(trained.names)} heads ({', '.join(trained.names)}) in {folder}; "
        f"held out {trained.card['held_out']}"
    )


def _train_sarm(options) -> None:
    from lib.models import load_model
    from lib.training import cards, sarm
    from lib.training.sae import Recipe

    model = load_model(options.model, device=options.device or None)
    device = next(model.backbone.parameters()).device.type
    sets = sarm.load_sets(dict(options.data), options.limit)
    width = model.backbone.config.get_text_config().hidden_size
    recipe = Recipe(
        options.latents or 8 * width, options.k, options.seed, options.steps, options.batch
    )
    given = {"layer": options.layer, "topk": not options.all_latents, "device": device}
    given["told"] = functools.partial(print, file=sys.stderr, flush=True)
    trained = sarm.make(model, sets, options.out, recipe, **given)
    kept = trained.card["quality"]["explained"]["value"]
    print(f"{options.out}: explained variance {kept:.3f} of held-out states")
    for name, head in trained.card["heads"].items():
        print(f"{name}: held-out accuracy {cards.shown(head['held_out'])}")


def _release(options) -> None:
    from lib import paths
    from lib.audits import book
    from lib.book import citing, releases

    version = str(citing.citation()["version"])
    folder = paths.BOOK / "releases"
    print(f"Kept: {releases.keep(paths.RESULTS, folder, version, options.again)}")
    if audit := book.commit(paths.RESULTS, paths.BOOK):
        print(f"Kept: {audit}")


def _calibrate(options) -> None:
    from lib import calibration, paths

    folder = Path(options.out) if options.out else paths.CALIBRATION
    written = calibration.keep(folder, options.draws, options.seed, options.fresh)
    print(f"Computed: {', '.join(written) or 'nothing, all of it is kept'} (in {folder}).")


def _train(options) -> None:
    from lib.training import parts, smol_armo, smol_mixed, smol_sarm

    script = {made.NAME: made for made in (smol_armo, smol_mixed, smol_sarm)}[options.name]
    model = parts.bare_backbone(options.device)
    sizes = {"steps": options.steps} if getattr(options, "steps", 0) else {}
    print(script.train(options.source, options.out, model=model, limit=options.limit, **sizes))


def _train_tension(options) -> None:
    from lib.models import load_model
    from lib.training.tension import study

    model = load_model(options.model, device=options.device or None, dtype="float32")
    given = _given(options, "source", "out", "seeds", "only", "limit")
    # The place of the data is this machine's own.
    told = ["FOLDER" if word == options.source else shlex.quote(word) for word in sys.argv[1:]]
    command = " ".join(["python -m lib", *told])
    settings = study.Settings(draws=options.draws, part_draws=-(-options.draws // 5))
    say = functools.partial(print, file=sys.stderr, flush=True)
    print(study.run(model, settings=settings, command=command, say=say, **given))


HELP = "-h, --help"
SWITCH = {"action": "store_true"}
TEXT = {"default": ""}
FILE = {"metavar": "FILE"}
COUNT = {"type": _count, "default": 0}
SOURCED = {"nargs": "+", "required": True, "type": _sourced, "metavar": "DATASET[=FOLDER]"}
FLAGS = {
    "--model": {"required": True},
    "--dataset": {"required": True},
    "--datasets": {"required": True, "nargs": "+", "metavar": "NAME"},
    **dict.fromkeys(("--source", "--out", "--title", "--device", "--dtype", "--date"), TEXT),
    "--split": {"default": "test"},
    "--limit": {"type": _count, "default": 0},
    "--seed": {"type": _seed, "default": 0},
    "--order": {"default": "sample"},
    "--ties": {"choices": ("drop", "keep"), "default": "drop"},
    "--states": {"type": int},
    "--taps": {"nargs": "+", "default": (), "metavar": "TAP"},
    "--stream": {"type": _count, "default": 0, "metavar": "ITEMS"},
    "--traced": COUNT | {"metavar": "N"},
    "--patched": COUNT | {"metavar": "N", "default": None},
    "--part": {"type": _fraction, "metavar": "I/N"},
    "--gather": {"action": "append", "default": [], "metavar": "FOLDER"},
    "--cores": {"type": _positive, "default": 2},
    "--items": {"type": _positive, "default": 8},
    "--draws": {"type": _positive, "default": 10_000},
    "--seeds": {"type": _positive, "default": 5},
    "--only": {"type": _count, "nargs": "+", "default": (), "metavar": "SEED"},
    "--ratings": SOURCED,
    "--preferences": SOURCED,
    "-p": {"action": "append", "default": [], "metavar": "NAME=VALUE", "type": _pair},
    HELP: SWITCH,
    "notebook": {"nargs": "?", "default": ""},
    "runs": {"nargs": "+", "metavar": "RUN"},
    "models": {"nargs": "+", "metavar": "MODEL"},
    **dict.fromkeys(("--yes", "--all-prompts", "--stamp", "--check", "--fresh", "--again"), SWITCH),
    **dict.fromkeys(("--quick", "--attention-heads", "--show-text"), SWITCH),
    "--exploit": {"nargs": "*", "default": None, "metavar": "FORM"},
    **dict.fromkeys(("--reference", "--training", "--json"), TEXT | FILE),
    "--published-axis": SWITCH,
    "--data": SOURCED,
    "--all-latents": SWITCH,
    **{key: {"type": _count, "default": 0} for key in ("--layer", "--latents")},
    "--k": {"type": _positive, "default": 64},
    "--steps": {"type": _positive, "default": 6000},
    "--batch": {"type": _positive, "default": 4096},
}
EXPLOIT = "put manipulations to the dataset's own responses: length, formatting, confidence, "
EXPLOIT += "sycophancy, repetition, refusal, keyword, self-praise, authority; all if none is named"
# Flags → help; with a pair, how the flag is read by this command alone.
ITEMS = {
    "--source": "a folder of its files; the hub if unset",
    "--split": None,
    "--limit": "at most this many items; 0: all",
    "--seed": "of the sample that limit takes",
    "--order": "sample or head",
    "--ties": "rows of a file that prefer neither: drop, or keep as items without a comparison",
    "--exploit": EXPLOIT,
}
MACHINE = {
    "--device": "cpu, cuda, …; a GPU if there is one",
    "--dtype": "float32, bfloat16 or float16",
    "--date": "that a chat template writes as today's; 2024-07-26 if unset",
    "--yes": "start even if it takes hours",
}
# Of commands that score datasets where no run is kept, which all hand these on.
SCORING = {
    "--source": "a folder of a dataset's files, or of several's; the hub if unset",
    "--limit": "at most this many items of each dataset that is scored now; 0: all",
    "--seed": "of that sample",
    **MACHINE,
}
SMOL = {
    "--source": ("folder of real preference files", {"required": True}),
    "--out": ("folder for weights and card; the package's by default", {}),
    "--limit": "items of each set; 0: all",
}
CPU = "cpu, cuda, …; cpu if unset", {"default": "cpu"}
GPU = "cpu, cuda, …; a GPU when there is one if unset", {}
TRAIN = {
    "smol-armo": ("the embedded model, again", _train, SMOL | {"--device": CPU}),
    "smol-mixed": ("the embedded model of one head, again", _train, SMOL | {"--device": GPU}),
    "smol-sarm": (
        "the embedded model of sparse features, again",
        _train,
        SMOL
        | {
            "--device": GPU,
            "--steps": (
                "of each autoencoder's training; 0: those of its recipe",
                {"type": _count, "default": 0},
            ),
        },
    ),
    "sarm": (
        "SARM's recipe on any comparisons: a reward of sparse features",
        _train_sarm,
        {
            "model": "whose backbone and template to use",
            "--data": "datasets with comparisons, each with its source folder; the hub without one",
            "--layer": "that the autoencoder reads; half of them if unset",
            "--latents": "how many; 8 a feature if unset",
            "--k": "latents that are kept of a token",
            "--all-latents": "let the reward read all of them, as with SARM's flag off",
            "--steps": "of the autoencoder's training",
            "--batch": "states a step",
            "--limit": "items of each dataset; 0: all",
            "--seed": None,
            "--device": GPU,
            "--out": ("folder for the checkpoint", {"required": True}),
        },
    ),
    "armorm": (
        "ArmoRM's recipe on any rated datasets",
        _train_armorm,
        {
            "--model": ("whose backbone and template to use", {"default": "smol-armo"}),
            "--ratings": "rated datasets, each with its source folder; the hub without one",
            "--preferences": "preference datasets, each with its source folder; "
            "the hub without one",
            "--remove": "attribute to take out of the others (verbosity)",
            "--limit": "items of each dataset; 0: all",
            "--seed": None,
            "--published-axis": "with the published fault",
            "--out": ("folder for the checkpoint", {"required": True}),
        },
    ),
    "tension": (
        "helpful, harmless and mixed models, and their neurons silenced",
        _train_tension,
        {
            "--model": ("whose backbone and template to use", {"default": "smol-armo"}),
            "--source": ("folder that holds hh-rlhf, xstest, …", {"required": True}),
            "--seeds": "of training; a study that was stopped goes on",
            "--only": "those of the seeds to make here, from 0; all if unset",
            "--draws": (
                "random sets of neurons of the published size, of each model",
                {"type": _positive, "default": 50},
            ),
            "--limit": "items of each dataset; 0: all",
            "--device": GPU,
            "--out": ("folder for the study", {"required": True}),
        },
    ),
}
# Name → what it does, the function that does it, its flags; without a function, its commands.
COMMANDS = {
    "extract": (
        "run a model once over a dataset",
        _extract,
        {
            "--model": "an embedded model's name, a folder or a hub id",
            "--dataset": "a dataset's name, or file:PATH",
            **ITEMS,
            "--out": "folder for the run",
            "--states": "keep states of this many items; all if unset",
            "--all-prompts": "also those heads trained on",
            "--taps": "also keep: layers, neurons, writes, attended",
            "--stream": "so many items in memory at a time, for sets that don't fit",
            "--part": "states of one part of N alone, from 0",
            "--store": "folder for the states; in the cache if unset",
            "--gather": "a store of one part",
            **MACHINE,
        },
    ),
    "explain": (
        "what each part of a model adds to its rewards, and what patching it does",
        _explain,
        {
            "model": "an embedded model's name, a folder or a hub id",
            "dataset": "a dataset's name, or file:PATH",
            **ITEMS,
            "--out": ("folder for the effects", {"required": True}),
            "--traced": "items taken apart; 100 if unset",
            "--patched": "comparisons patched, one a prompt; 48 if unset, 0: none",
            "--attention-heads": "tell attention heads apart too",
            "--store": "folder for what is done so far; in the cache if unset",
            **MACHINE,
        },
    ),
    "audit": (
        "add a model to the book and build it",
        _audit,
        {
            "--model": "an embedded model, a folder or a hub id",
            "--datasets": "datasets' names, or file:PATH; several in one text are split as a "
            "shell does",
            "--cores": None,
            **SCORING,
        },
    ),
    "verify": (
        "is a run still what its model makes of its data?",
        _verify,
        {
            "runs": "folders of runs in float32",
            "--source": "folder of a dataset, or of several",
            "--items": "to score, of the shorter half",
            "--seed": "of that sample",
            "--stamp": "write the model's fingerprint into what is right",
        },
    ),
    "check": (
        "is the score even right? exit status 0: yes, 1: a line is wrong, 3: one can't be told, "
        "4: the check couldn't run",
        _check,
        {
            "model": "an embedded model's name, a folder or a hub id",
            "--data": ("a dataset's name, or file:PATH", {"default": "stimuli/controlled"}),
            "--source": "a folder of its files; the hub if unset",
            "--items": ("so many of its items", {"type": _positive, "default": 64}),
            "--seed": "of that sample",
            "--reference": "published results of these items: ids with scores or choices",
            "--training": "training data: do prompts stand in it?",
            "--json": "write check.json there",
            "--quick": "eight short items alone",
            "--device": "cpu, cuda, …; a GPU if there is one",
            "--date": "that a chat template writes as today's; 2024-07-26 if unset",
        },
    ),
    "compare": (
        "which of two or more models is better, beyond noise, and where they disagree",
        _compare,
        {
            "models": "embedded models' names, folders or hub ids of models, or folders of kept "
            "runs; two checkpoints of one run too",
            "--datasets": (
                "datasets' names, or file:PATH; those that every model has a run of if unset",
                {"nargs": "+", "default": [], "metavar": "NAME"},
            ),
            "--head": ("compare by the heads of this name, not by each model's one score", TEXT),
            "--json": "write compare.json there",
            "--page": ("execute the page there, with its tables beside it", TEXT | FILE),
            "--contested": (
                "so many items that are contested most, of two models",
                {"type": _count, "default": 20},
            ),
            "--show-text": "also the text of contested items, of file: datasets alone",
            "--fresh": "score now, also where a run is committed",
            **SCORING,
        },
    ),
    "exploits": (
        "which surfaces does a model pay for, with content held equal?",
        _exploits,
        {
            "model": "an embedded model's name, a folder or a hub id",
            "--data": (
                "file:PATH or a dataset's name, whose own responses are manipulated; pairs written "
                "for this if unset",
                {"default": "stimuli/exploits"},
            ),
            "--exploit": EXPLOIT,
            "--page": ("execute the page there", TEXT | FILE),
            **SCORING,
            "--source": "a folder of its files; the hub if unset",
        },
    ),
    "report": (
        "one file to send: check, scorecard, exploits, validity and comparison of a model",
        _report,
        {
            "model": "an embedded model's name, a folder or a hub id of a model, or a folder of "
            "kept runs",
            "--datasets": (
                "datasets' names, or file:PATH; those that it has a run of if unset. Surfaces are "
                "tried on stimuli/exploits in any case",
                {"nargs": "+", "default": [], "metavar": "NAME"},
            ),
            "--out": ("the page", {"metavar": "FILE", "default": "report.html"}),
            "--json": ("audit.json; beside the page if unset", TEXT | FILE),
            "--against": (
                "models to compare it with; the embedded ones with a run of the same datasets if "
                "unset",
                {"nargs": "+", "default": [], "metavar": "MODEL"},
            ),
            "--results": (
                "tell what executed pages left there, such as book/results; nothing is scored",
                TEXT | {"metavar": "FOLDER"},
            ),
            "--quick": "check eight short items alone",
            **SCORING,
            "--seed": "of that sample, and of the check's",
        },
    ),
    "diff": (
        "what changed between two audits, and whether beyond noise; exit status 0: no verdict, "
        "3: some, 4: something moved beyond noise",
        _diff,
        {
            "old": ("audit.json of then", {"metavar": "OLD"}),
            "new": ("audit.json of now", {"metavar": "NEW"}),
        },
    ),
    "describe": (
        "what a dataset holds",
        _describe,
        {"dataset": "a dataset's name, or file:PATH", **ITEMS},
    ),
    "page": (
        "execute a notebook",
        _page,
        {
            "notebook": None,
            "--out": "the executed page",
            "--title": "put after the page's own title",
            "-p": None,
            HELP: None,
        },
    ),
    "toc": ("write _toc.yml from audit.yml", _toc, {"--check": "write nothing; is it in step?"}),
    "site": ("render executed pages into the site", _site, {}),
    "build": ("extract, execute and render what changed", _build, {"--cores": None}),
    "calibrate": (
        "compute what the calibration page shows",
        _calibrate,
        {
            "--draws": "worlds of a kind",
            "--seed": None,
            "--fresh": "also what is kept and matches",
            "--out": "folder; the committed one if unset",
        },
    ),
    "release": (
        "keep this book's headline figures under its version, and its audit.json, to compare later "
        "ones with",
        _release,
        {"--again": "also where that version is kept already"},
    ),
    "train": ("train heads on a frozen backbone, or whole models", None, TRAIN),
}


if __name__ == "__main__":
    raise SystemExit(main())
