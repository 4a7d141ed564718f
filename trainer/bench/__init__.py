"""Bench: what a training step costs, against a plain implementation and against TRL.

`python -m trainer.bench` writes reports/trainer.json (`make bench-trainer`); `python -m trainer.bench.gpu` is the short check for
a machine with a GPU. Speeds are measured in turns in one process, peaks of memory in processes of their own. TRL is optional:
without it its ratios are missing and the report says so.

Map. `shapes` (models and recorded episodes of a wanted size), `released` (the published procedure, written plainly),
`rivals` (TRL's trainers on the same tokens), `measure` (time, memory, spread), `growth`, `gpu`.
"""
