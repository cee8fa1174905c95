"""Is the score even right? Asked of any model that loads, before anything else is.

>>> from lib.check import check
>>> checked = check("smol-armo", quick=True)
>>> checked.verdict, checked.rows[0].line, checked.rows[0].found

A check is a list of rows. Each is of one line (``lines.LINES``) and says what was found, what was
expected, whether that is right, and what to do. Lines that stand on another are *blocked* where
that one is wrong; what nobody asked for is *not asked*; a *note* is neither right nor wrong.

``lines``       ``Row``, ``Checked``, verdicts and exit codes; ``check.json``, with its schema
``measure``     ``check``: which lines are asked, in which order, and what blocks what
``subject``     what lines share: items encoded, scores of each text alone
``head``        *Head*: which file holds which head tensor; what is missing, left over, there twice
``reading``     *Reading*: against the checkpoint's own class (``RewardModel.own_scores``)
``template``    *Template*: what opens and closes a text, dates, system prompts, and what the wrong
                template costs
``invariance``  *Invariance*: batches, padding, order, packing, kernel, number type
``scales``      *Length*: tokens beyond windows; *Scale*: spread within and between prompts
``outside``     *Reference*: published scores of the same items; *Overlap*: training prompts
``command``     ``python -m lib check``
"""

from __future__ import annotations


def __getattr__(name: str):
    if name == "check":  # fetched when it is asked for: reading a check imports no torch
        from lib.check.measure import check

        return check
    raise AttributeError(f"module 'lib.check' has no attribute {name!r}")
