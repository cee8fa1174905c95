"""From ``audit.yml`` to a site: the plan, the pages, the table of contents, the build.

``plan`` reads what the book shows, ``applies`` which pages make sense for a model, ``pages``
executes one notebook, ``toc`` writes the table of contents, ``site`` renders (``mathml`` and
``theming`` keep it offline and safe), ``build`` runs the whole graph under a lock. ``audit``
adds a model to the book, ``estimate`` says how long that takes, ``status`` lists what made
each page.
"""
