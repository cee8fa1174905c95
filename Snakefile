"""extract → page → book. What to make is read by lib.book.plan from audit.yml,
and from audit.local.yml where there is one."""

import json
import shlex
import sys
from pathlib import Path

from lib.book import plan

PLAN = plan.read()
RUNS = {run.manifest: run for run in PLAN.runs if not run.committed}
PAGES = {page.output: page for page in PLAN.pages}
PYTHON = shlex.quote(sys.executable)


def sources(*places):
    """Files under the places that a step's result depends on."""
    found = []
    for place in map(Path, places):
        found += [place] if place.is_file() else place.rglob("*")
    kept = {".py", ".ipynb", ".yaml", ".yml", ".md", ".bib", ".js", ".css", ".json", ".safetensors"}
    return sorted(
        str(path)
        for path in found
        if path.suffix in kept and not any(part.startswith(".") for part in path.parts)
    )


EXTRACTING = sources("lib/data", "lib/models", "lib/extraction", "lib/atomic.py", "lib/errors.py", "lib/paths.py")
LIBRARY = sources("lib")
BOOK = [path for path in sources("book") if "/results/" not in path and "/_build/" not in path]


def words(options):
    return " ".join(shlex.quote(str(word)) for pair in options for word in pair)


rule all:
    input:
        ".cache/book.stamp",


def options(run):
    given = [("--model", run.model), ("--dataset", run.dataset)]
    return words(given + [(f"--{key}", value) for key, value in run.options.items()])


# One part of a run's states, on whatever host the executor chose, into the cache that hosts
# share; ``extract`` then finds them there. Only a stamp is Snakemake's: what a killed or
# failed part had finished is used again.
rule part:
    input:
        EXTRACTING,
        given=lambda wildcards: RUNS[f".cache/runs/{wildcards.run}/run.json"].inputs,
    output:
        touch(".cache/parts/{run}/{part}-of-{parts}.done"),
    wildcard_constraints:
        run=r".+",
        part=r"\d+",
        parts=r"\d+",
    params:
        options=lambda wildcards: options(RUNS[f".cache/runs/{wildcards.run}/run.json"]),
    threads: 2
    shell:
        "{PYTHON} -m lib extract {params.options} --part {wildcards.part}/{wildcards.parts} --yes"


rule extract:
    input:
        EXTRACTING,
        given=lambda wildcards: RUNS[f"{wildcards.folder}/run.json"].inputs,
        parts=lambda wildcards: RUNS[f"{wildcards.folder}/run.json"].pieces,
    output:
        update("{folder}/run.json"),
    wildcard_constraints:
        folder=r"\.cache/runs/.+",
    params:
        options=lambda wildcards, output: options(RUNS[output[0]]),
    threads: 2
    shell:
        "{PYTHON} -m lib extract {params.options} --out {wildcards.folder} --yes"


rule page:
    input:
        LIBRARY,
        runs=lambda wildcards: [
            run.manifest for run in PAGES[f"book/results/{wildcards.page}.ipynb"].runs
        ],
        reads=lambda wildcards: PAGES[f"book/results/{wildcards.page}.ipynb"].reads,
        measurements=lambda wildcards: PAGES[
            f"book/results/{wildcards.page}.ipynb"
        ].measurements,
        notebook=lambda wildcards: f"notebooks/{wildcards.page.split('/')[-1]}.ipynb",
    output:
        update("book/results/{page}.ipynb"),
    params:
        notebook=lambda wildcards, output: PAGES[output[0]].notebook,
        title=lambda wildcards, output: shlex.quote(PAGES[output[0]].about),
        given=lambda wildcards, output: words(
            ("-p", f"{name}={value if isinstance(value, str) else json.dumps(value)}")
            for name, value in PAGES[output[0]].parameters.items()
        ),
    shell:
        "OMP_NUM_THREADS=1 {PYTHON} -m lib page {params.notebook} --out {output}"
        " --title {params.title} {params.given}"


rule book:
    input:
        BOOK,
        "_config.yml",
        "_toc.yml",
        LIBRARY,
        pages=list(PAGES),
    output:
        touch(".cache/book.stamp"),
    shell:
        "{PYTHON} -m lib site > /dev/null"
