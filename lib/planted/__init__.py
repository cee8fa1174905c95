"""Worlds whose right answers are known, for tests and for the calibration page.

``make_run`` builds a Run from scores alone; ``wins`` draws clustered outcomes of a known
win rate; ``validity_world`` is a run with heads that follow, ignore, invert the label or
follow length.
"""

from lib.planted.worlds import make_run, validity_world, wins

__all__ = ["make_run", "validity_world", "wins"]
