"""Do the states hold a concept, and does the head that names it read it?

Of one run with states whose comparisons vary one criterion at a time.

``stats``        ``probes``, ``separability_as_published``, ``ceiling``
``readout``      ``readout``: what is lost between states and head; ``learning_curve``
``charts``       probes, read-outs, curves
``words``        takeaways
``worlds``       ``separability_world``
``calibration``  concepts found, losses between state and head
"""

from lib.declared import STIMULI, Analysis

ANALYSIS = Analysis(
    __name__,
    place=80,
    method="Separability",
    audited=STIMULI,
    calibrated=True,
    keeps={"readout": "concept head verdict"},
)
