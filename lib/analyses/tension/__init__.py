"""Alignment tension: what does mixing helpful and harmless data break, and where?

Of a study that ``python -m lib train tension`` left, of no run.

``tasks``        test sets and their parts, and what models rank right in them
``crossed``      means over prompts and seeds together
``published``    the published figures of this backbone, and those of an earlier run here
``abilities``    ``accuracy``, ``lengths``, ``helps``
``silencing``    ``silenced``, beside random neurons; ``shrinkage``, ``margins``
``neurons``      ``overlaps``, ``kept``, ``layers``
``earlier``      ``against``
``stats``        all of these for the page
``charts``       accuracies, silenced neurons, overlaps, what helps
``words``        takeaways
``worlds``       a tiny network with known shared neurons, and one with none
``calibration``  are shared neurons found, and called needed only where they are?
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=115,
    method="Alignment tension",
    calibrated=True,
    keeps={"tension_silenced": "model task set put n seeds change low high verdict"},
)
