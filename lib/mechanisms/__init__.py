"""Why a head says what it says: a reward taken apart along the residual stream.

A decoder adds to one stream: the embedding first, then each layer's attention and MLP. The
norm at its end and a linear head make the reward of it, so with the norm's scale held at
what it was the reward is a sum of what each of them wrote.

``tracing``    one pass: lens and parts of every head's reward, at each response's last token
``patching``   what a margin would be with one node's output taken from elsewhere
``paths``      what a component's own write does to a reward, all else held
``tokens``     what the token that is read takes from each token of a text
``effects``    all of that for one model and dataset, as ``lib.effects`` has it
``disk``       effects in a folder
``estimate``   how long that takes
``command``    ``python -m lib explain``

Everything is measured with torch and handed on as labelled arrays; analyses read those.
Where writes enter the stream is described in ``lib.models.anatomy``.
"""
