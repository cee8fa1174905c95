"""Which layers carry what a head says: what its margin loses when their output is exchanged.

Of the effects of one model on one dataset.

``stats``        ``nodes``, ``verdicts``, ``largest``
``agreement``    ``attribution``, ``faults``, ``alignment``, ``ways``, ``gate``
``charts``       largest, depth, attribution
``words``        takeaways
``worlds``       ``patching_world``, ``exchanged``
``calibration``  nodes confirmed in worlds where none, some and cancelled ones carry a margin
"""

from lib.declared import EACH, Analysis

ANALYSIS = Analysis(
    __name__,
    place=107,
    method="Patching",
    audited=EACH,
    calibrated=True,
)
