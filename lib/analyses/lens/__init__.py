"""What would each head say if the model stopped at each layer, and from where on does it stay so?

Of the effects of a model on a dataset (``lib.effects``).

``stats``        ``curves``, ``depths``, ``published``, ``ends``
``orders``       ``order``: depths if the layers had written in another order
``settling``     ``settling``: depths of each comparison, for models compared
``charts``       ``margins``, ``agreement``
``words``        takeaways
``worlds``       ``settled_world``, ``ordered_world``
``calibration``  depths claimed too early, and depths found
"""

from lib.declared import EACH, Analysis

ANALYSIS = Analysis(
    __name__,
    place=103,
    method="Lens",
    audited=EACH,
    calibrated=True,
    keeps={
        "lens_depths": "head layers settled note",
        "lens_settling": "item prompt better worse criterion subset head layers stays",
    },
)
