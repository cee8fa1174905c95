"""What published audits claim, and whether their own figures and our runs bear it out.

``claims.yaml``  every claim: source, words, what fills them, verdict or what it hangs on
``claims``       reads, fills and judges them
``stats``        what the figures imply
``explained``    reward-lens on models at hand, ``silenced`` the tension study on one at hand
``stars``        the published star beside tests of wins
``planted``      the published methods where the truth is known
``tables``       what every claim may name, ``evidence`` what single ones do
``words``        takeaways and values for other pages
``cards``        every claim as the page shows it, and all keys
``dispute``      the form with which one is disputed
``charts``       counts by verdict, rates, shares, heads that cross
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=120,
    method="Published claims",
)
