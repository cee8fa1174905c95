"""Are the heads separate, or one judgement under many names?

Of one run of a model with two heads or more.

``stats``        ``disentanglement``, ``clusters``, ``sizes``, ``factors``, ``overview``
``linkage``      average linkage and matches of clusters, on arrays
``parallel``     the null of parallel analysis
``charts``       ``heatmap``, ``scree``
``words``        takeaways
``worlds``       ``blocks_world``, ``copies_world``, ``independent_world``, ``levels_world``
``calibration``  factors, clusters, intervals of correlations
"""

from lib.declared import STIMULI, Analysis

ANALYSIS = Analysis(
    __name__,
    place=60,
    method="Disentanglement",
    audited=STIMULI,
    heads=2,
    calibrated=True,
    keeps={"disentanglement": "kind head other r low high"},
)
