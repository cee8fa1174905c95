"""Does each head measure what its name claims?

Of one run whose comparisons vary one criterion at a time, of a model whose heads claim concepts.

``naming``       which concept a name claims, which criteria a run has
``stats``        ``label_matrix``, ``label_check``, ``named``, ``names_p``
``fits``         ``fits_p``: does a head win more in its own column than its kind does?
``exchanges``    the contrasts that accuse a name
``multitrait``   ``mtmm``: do heads of one concept agree?
``charts``       ``labels``
``words``        takeaways
``worlds``       ``label_world``, ``label_wins``, ``agreement_gaps``
``calibration``  names called wrong, names better than random, agreement
"""

from lib.declared import STIMULI, Analysis

ANALYSIS = Analysis(
    __name__,
    place=50,
    method="Labels",
    audited=STIMULI,
    heads=2,
    concepts=2,
    calibrated=True,
    keeps={"labels": "head claims own low high label why"},
)
