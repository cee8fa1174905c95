"""From ``audit.yml`` to a site: the plan, the pages, the table of contents, the build.

``plan`` reads what the book shows, ``pages`` executes one notebook, ``toc`` writes the
table of contents, ``site`` renders, ``build`` runs the whole graph under a lock.
"""
