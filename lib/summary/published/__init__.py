"""What published audits claim, and whether their own figures and our runs bear it out.

``stats``     what the figures imply
``evidence``  the published methods on planted worlds
``claims``    each claim with its verdict
``charts``    counts by verdict, evidence
``words``     claims and evidence in words
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=120,
    method="Published claims",
)
