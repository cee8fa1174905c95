"""The shell's way in: ``python -m lib extract|page|describe|toc|site|build|train``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lib.errors import AuditError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors of ours are one line on stderr and exit status 1."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        return options.run(options) or 0
    except AuditError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lib", description="Audit a reward model.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("extract", help="run a model once over a dataset")
    command.add_argument("--model", required=True, help="an embedded model's name, or a folder")
    _dataset(command)
    command.add_argument("--out", required=True, help="folder for the run")
    command.add_argument("--states", type=int, help="keep states of this many items; all if unset")
    command.add_argument("--all-prompts", action="store_true", help="also those heads trained on")
    command.add_argument("--device", help="cpu, cuda, …")
    command.add_argument("--dtype", help="float32, bfloat16 or float16")
    command.set_defaults(run=_extract)

    command = commands.add_parser("describe", help="what a dataset holds")
    _dataset(command, "dataset")
    command.set_defaults(run=_describe)

    command = commands.add_parser("page", help="execute a notebook", add_help=False)
    command.add_argument("notebook", nargs="?", default="")
    command.add_argument("--out", help="the executed page")
    command.add_argument("--title", default="", help="put after the page's own title")
    command.add_argument("-p", action="append", default=[], metavar="NAME=VALUE", type=_pair)
    command.add_argument("-h", "--help", action="store_true")
    command.set_defaults(run=_page)

    command = commands.add_parser("toc", help="write _toc.yml from audit.yml")
    command.set_defaults(run=_toc)

    command = commands.add_parser("site", help="render executed pages into the site")
    command.set_defaults(run=_site)

    command = commands.add_parser("build", help="extract, execute and render what changed")
    command.add_argument("--cores", type=int, default=2)
    command.set_defaults(run=_build)

    command = commands.add_parser("train", help="train heads on a frozen backbone")
    models = command.add_subparsers(required=True, metavar="WHAT")
    smol = models.add_parser("smol-armo", help="the embedded model, again")
    smol.add_argument("--source", required=True, help="folder of real preference files")
    smol.add_argument("--out", help="folder for weights and card; the package's by default")
    smol.set_defaults(run=_train)
    armorm = models.add_parser("armorm", help="ArmoRM's recipe on any rated datasets")
    armorm.add_argument("--model", default="smol-armo", help="whose backbone and template to use")
    for name, what in (("ratings", "rated datasets"), ("preferences", "preference datasets")):
        armorm.add_argument(
            f"--{name}",
            nargs="+",
            required=True,
            type=_sourced,
            metavar="DATASET[=FOLDER]",
            help=f"{what}, each with its source folder; the hub without one",
        )
    armorm.add_argument("--remove", help="attribute to take out of the others (verbosity)")
    armorm.add_argument("--limit", type=int, default=0, help="items of each dataset; 0: all")
    armorm.add_argument("--seed", type=int, default=0)
    armorm.add_argument("--published-axis", action="store_true", help="with the published fault")
    armorm.add_argument("--out", required=True, help="folder for the checkpoint")
    armorm.set_defaults(run=_train_armorm)
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"needed NAME=VALUE, found {text!r}")
    return name, value


def _dataset(command: argparse.ArgumentParser, flag: str = "--dataset") -> None:
    required = {"required": True} if flag.startswith("-") else {}
    command.add_argument(flag, help="a dataset's name, or file:PATH", **required)
    command.add_argument("--source", help="a folder of its files; the hub if unset")
    command.add_argument("--split", default="test")
    command.add_argument("--limit", type=int, default=0, help="at most this many items; 0: all")
    command.add_argument("--seed", type=int, default=0, help="of the sample that limit takes")
    command.add_argument("--order", default="sample", help="sample or head")


def _items(options):
    from lib.data import load_items

    return load_items(
        options.dataset,
        split=options.split,
        source=options.source,
        limit=options.limit,
        seed=options.seed,
        order=options.order,
    )


def _extract(options) -> None:
    from lib.extraction import check_target, extract, save_run
    from lib.models import load_model

    check_target(options.out, options.states)
    items = _items(options)
    model = load_model(options.model, device=options.device, dtype=options.dtype)
    run = extract(model, items, held_out=not options.all_prompts)
    save_run(run, options.out, states=options.states, seed=options.seed)
    left_out = ", ".join(f"{n} {why}" for why, n in run.attrs["dropped"].items()) or "none"
    print(f"{run.sizes['item']} items scored; left out: {left_out}; run in {options.out}")


def _describe(options) -> None:
    from lib.data.describe import describe

    print(describe(_items(options)))


def _page(options) -> int:
    from lib.book import pages
    from lib.parameters import from_text

    if options.help or not options.notebook:
        print(_page_help(options.notebook))
        return 0
    known = pages.declared(options.notebook)
    given = {
        name: from_text(known[name], value) if name in known else value for name, value in options.p
    }
    out = options.out or f"{options.notebook}.ipynb"
    print(pages.run_page(options.notebook, out, given, options.title))
    return 0


def _seen_from_root(name: str, value):
    """A path given here, as the page sees it: pages run at the root of the checkout."""
    if name == "dataset" and value.startswith("file:"):
        return f"file:{_from_root(value.removeprefix('file:'))}"
    if name in ("source", "run", "tables") and value:
        return _from_root(value)
    if name == "runs":
        return [_from_root(folder) for folder in value]
    return value


def _from_root(path: str) -> str:
    from pathlib import Path

    from lib import paths

    whole = Path(path).absolute()
    inside = whole.is_relative_to(paths.ROOT)
    return str(whole.relative_to(paths.ROOT) if inside else whole)


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
    from lib.book import toc

    toc.write()


def _site(options) -> None:
    from lib.book import site

    print(site.render())


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
    trained = armorm.train(
        model,
        dict(options.ratings),
        dict(options.preferences),
        remove=options.remove,
        limit=options.limit,
        seed=options.seed,
        published_axis=options.published_axis,
    )
    folder = armorm.save(trained, model, options.out)
    print(
        f"{len(trained.names)} heads ({', '.join(trained.names)}) in {folder}; "
        f"held out {trained.card['held_out']}"
    )


def _train(options) -> None:
    from lib.training import smol_armo

    print(smol_armo.train(options.source, options.out))


if __name__ == "__main__":
    raise SystemExit(main())
