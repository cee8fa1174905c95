"""Which ways of putting an answer are directions of the states, and which do heads pay for?

Of one run with states whose comparisons vary one concept at a time, and the head matrix of its
model; along the depth where the states of layers were kept.

``pairs``        matched pairs, concept by concept
``cosines``      lengths and cosines without the bias of finite samples
``directions``   ``found``, ``by_layer``, ``alignment``
``dose``         ``dose``, ``slopes``
``conflict``     ``conflict``
``coverage``     ``coverage``
``divergence``   ``tail``, ``calibrated``
``stats``        all of these for the page
``charts``       found, alignment, depth, doses, conflict
``words``        takeaways
``worlds``       ``concept_world``
``calibration``  concepts found and paid for, criteria in conflict, states flagged
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=85,
    method="Concepts",
    audited="stimuli/concepts",
    calibrated=True,
)
