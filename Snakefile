"""part → extract, effects → page → site: every step of lib.book.steps, and the receipts that tell of it.

What is stale is judged there, by content; here no time of a file counts. Executors, clusters
and resources are chosen as ever, in a profile: ``SNAKEMAKE_PROFILE=… make book``. Hosts share
the checkout and the cache.
"""

import shlex

from lib.book import forks, steps

STEPS = steps.steps()


def command(words):
    return shlex.join(words).replace("{", "{{").replace("}", "}}")


# Snakemake logs on the other stream: what steps tell reaches the console as it comes.
STEP = command(forks.command("lib.book.steps"))

if workflow.is_main_process:
    steps.prepare(STEPS)


def after(kind):
    return lambda wildcards: [
        STEPS[name].receipt for name in STEPS[f"{kind}/{wildcards.place}"].after
    ]


rule all:
    input:
        STEPS[steps.SITE].receipt,


# One part of a run's states, on whatever host the executor chose, into the cache that hosts
# share; ``extract`` then finds them there.
rule part:
    output:
        steps.RECEIPTS + "/part/{place}.json",
    threads: 2
    shell:
        STEP + " part/{wildcards.place} 2>&1"


rule extract:
    input:
        after("extract"),
    output:
        steps.RECEIPTS + "/extract/{place}.json",
    threads: 2
    shell:
        STEP + " extract/{wildcards.place} 2>&1"


rule effects:
    input:
        after("effects"),
    output:
        steps.RECEIPTS + "/effects/{place}.json",
    threads: 2
    shell:
        STEP + " effects/{wildcards.place} 2>&1"


rule page:
    input:
        after("page"),
    output:
        steps.RECEIPTS + "/page/{place}.json",
    shell:
        "OMP_NUM_THREADS=1 " + STEP + " page/{wildcards.place} 2>&1"


rule site:
    input:
        after("site"),
    output:
        steps.RECEIPTS + "/site/{place}.json",
    shell:
        STEP + " site/{wildcards.place} 2>&1"
