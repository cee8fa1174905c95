"""One model's audit as files: a page to send, ``audit.json``, and what changed between two.

``outcomes``  who won each comparison, packed, with hashed ids
``document``  ``audit.json``, with its schema
``measure``   from a model's name to the tables that its pages would leave
``page``      ``report.html``: one file, which asks for no other
``figures``   a chart as a drawing that follows the reader's colours
``changes``   two audits side by side, paired by hashed id
``words``     what changed
``book``      the audit that a book keeps of its models
``command``   ``python -m lib report`` and ``python -m lib diff``
"""
