"""Sentences written from tables, a module an analysis; every number comes from the table.

They are plain text, which ``lib.report`` escapes. ``words`` has what several modules share.
"""
