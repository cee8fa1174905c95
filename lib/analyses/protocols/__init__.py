"""Does a head's verdict depend on the protocol that tests it?

Of one model's runs on several datasets, together.

``stats``        ``protocol_matrix``, ``longer``, ``variance_components``, heads that change sides
``charts``       ``protocols``
``words``        takeaways
``worlds``       ``protocol_world``, ``protocol_wins``
``calibration``  components of variance, heads that change sides
"""

from lib.declared import OVER_ALL, Analysis

ANALYSIS = Analysis(
    __name__,
    place=40,
    method="Protocols",
    audited=OVER_ALL,
    heads=2,
    calibrated=True,
    keeps={"protocols": "head protocol win_rate low high p_adjusted"},
)
