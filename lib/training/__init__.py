"""Training of the embedded model's heads.

``split`` keeps prompts apart, ``bradley_terry`` fits linear preference heads on frozen
states, ``smol_armo`` is the script that makes the committed weights.
"""
