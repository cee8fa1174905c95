"""From ``audit.yml`` to a site: the plan, the pages, the table of contents, the build.

``document`` reads ``audit.yml`` and ``merging`` what is added to it, ``plan`` says which runs
and pages that gives, ``applies`` which pages make sense for a model, ``steps`` what is out of
date. ``pages`` executes one notebook, ``toc`` writes the table of contents, ``site`` renders
(``mathml`` and ``theming`` keep it offline and safe), ``build`` runs the whole graph under a
lock. ``audit`` adds a model to the book, ``status`` lists what made each page.
"""
