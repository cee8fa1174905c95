"""Is a reward made of sparse features readable, and sparse?

Of one run of a model whose reward reads a sparse autoencoder.

``stats``        ``collapse``, ``quality``, ``here``, ``accuracy``, ``attribution``, ``features``,
                 ``names``, ``contexts``, ``stability``
``examples``     ``contexts``: where a feature fires, in texts that may be shown
``charts``       features, and criteria that they respond to
``words``        takeaways
``worlds``       ``dictionary_world``
``calibration``  dictionaries that are found again, features that are said to go toward a side
"""

from lib.declared import STIMULI, Analysis

ANALYSIS = Analysis(
    __name__,
    place=97,
    method="Sparse features",
    audited=STIMULI,
    sparse=True,
    calibrated=True,
)
