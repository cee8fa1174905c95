"""Which rewards do many people's choices share, and what may they be called?

Of runs of any model: comparisons whose users are known, or stand-ins for them, and the controlled
stimuli that names are tested on.

``people``       ``people``, ``simulated``: whose choices these are
``stats``        ``study``: how many bases, how steady, their names
``naming``       evidence for a name, and the test that it must pass
``few``          ``few_shot``: new users by number of pairs, beside other rewards
``charts``       ``few_shot``
``words``        takeaways
``worlds``       ``planted_people``
``calibration``  users alike or mixed: bases counted, spans claimed, names given
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=101,
    method="Latent bases",
    calibrated=True,
    keeps={"bases": "whose basis name why"},
)
