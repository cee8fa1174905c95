"""Training of heads on a frozen backbone.

``split`` keeps prompts apart, ``bradley_terry`` and ``ridge`` fit linear heads on frozen
states, ``gate`` the weights that a prompt gives them, ``bases`` rewards that many users share
(``lore`` as published). ``smol_armo`` and ``smol_mixed`` make the embedded models, ``armorm`` a
checkpoint from any rated and preference sets.
"""
