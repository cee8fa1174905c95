"""One folder an analysis: statistics, charts, words, planted worlds, calibration.

A folder's front says what is asked, of which runs and by which functions, and declares the
analysis (``lib.declared``). Inside, data flow one way: run → ``stats`` → ``charts`` → ``words`` →
page. Analyses don't import one another: what two of them need lies below, in ``lib.stats``,
``lib.charts``, ``lib.words`` and ``lib.planted``.
"""
