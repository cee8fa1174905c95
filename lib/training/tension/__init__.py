"""Alignment tension: train helpful, harmless and mixed models, and silence their neurons.

``python -m lib train tension`` makes what the page *tension* reads: text-free scores and small
tables of neurons, never weights.

``texts``     preference pairs and test sets as tokens, split by prompt
``finetune``  Bradley–Terry on all weights of a backbone
``neurons``   how important each is, which are the top ones, and runs with some silenced
``kept``      what is kept of it, and how it is read
``study``     seeds × objectives, measured and kept, one file a seed
"""
