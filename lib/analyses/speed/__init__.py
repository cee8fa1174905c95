"""How fast is extraction, and which aims were reached?

Of measurements that ``bench/`` left as JSON, of no run.

``stats``   ``ways``, ``totals``, ``workers``, ``starts``, ``memory``, ``targets``
``charts``  ``seconds``
``words``   takeaways
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=130,
)
