"""The gate: may a candidate replace the incumbent?

`evaluate` runs one policy over held-out tasks, with random numbers that both policies share;
`statistics` turns two such scores into a verdict and knows nothing else; `behaviour` says what else changed;
`python -m trainer.gate` measures the verdict's error rates on simulated gates. A fault never helps a
candidate: it fails the candidate's own pair, and the incumbent's drops the pair. Held-out tasks are
read here and nowhere else in this room. Another test or verdict rule goes into `statistics`;
another way to run the tasks (an engine apart, more samples) into `evaluate`.
"""
