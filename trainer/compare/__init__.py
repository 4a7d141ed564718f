"""Compare: every method on the same suite, from the same bank, with the same number of rollouts.

What it does. For each method the learning rate is tuned on a suite seed of its own with the same number of trials; then
each seed is run with the winner. Held-out tasks are played with common random numbers at fixed numbers of rollouts.

Map. `plan` (sizes, arms, ablations), `bank` (base rollouts that fill the experience bank, counted), `arm` (one run, resumed
where it stopped), `teacher` (the teacher as an agent), `behaviour` (what the agent did), `evidence` (intervals and rollouts to a target), `report` (JSON, table),
`pictures`. `python -m trainer.compare`, or `ratchet compare`.

What it must not know: rounds and the ledger's pointer. Every finished run is a file; a killed comparison goes on from it.
"""
