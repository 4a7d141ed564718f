"""The demo: the product's main job from outside, over HTTP, on a fresh data folder.

What it does: starts `ratchet up` as a process of its own, plays train tasks until the bank has
something to teach, measures the served agent on held-out tasks, starts one round, waits for the gate
and the swap, measures again, and says by how much the agent got better, with the interval.

What it must not know: the ledger, the engine, the trainer. It is a client like any other; whatever it
can't see over HTTP an operator could not see either. It opens the suite for one thing only: the ids
of the tasks to ask for.

Where to add the next act: a function in `story.py`, which reads like the list above.

Decisions: before and after are measured through the served agent, not taken from the gate, because
the claim is about what users get; held-out requests carry fixed sampling seeds, the same before and
after (common random numbers), so the difference is paired by task; the gate's seeds are others.
"""
