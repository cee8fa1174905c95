"""When heads are entangled, is that in their weights or in the backbone's states?

Of one run with states, and the head matrix of its model (two heads or more).

``stats``        ``identity``, ``gauges``, ``location``, ``spectrum``, ``pairs``, ``mantel``
``charts``       ``gauges``, ``spectrum``
``words``        takeaways
``worlds``       ``backbone_world``, ``heads_world``
``calibration``  places claimed where one is to be had, and where none is
"""

from lib.declared import STIMULI, Analysis

ANALYSIS = Analysis(
    __name__,
    place=70,
    method="Geometry",
    audited=STIMULI,
    heads=2,
    calibrated=True,
)
