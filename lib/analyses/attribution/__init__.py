"""Which part of the model adds what to each head's margin, and how steadily?

Of the effects of a model on a dataset (``lib.effects``).

``stats``        ``parts``, ``totals``, ``sums``
``charts``       ``parts``
``words``        takeaways
``examples``     two texts of our own, their tokens marked by what is read from them
``rounding``     ``measured``: what bfloat16 takes
``worlds``       ``parts_world``
``calibration``  components claimed where none is, and where one is
"""

from lib.declared import EACH, Analysis

ANALYSIS = Analysis(__name__, place=105, method="Attribution", audited=EACH, calibrated=True)
