"""Worlds whose right answers are known, and how often claims are made in them."""
