"""Rounds: what the agent has lived through becomes new weights of the student.

What it does. A worker claims a round in the ledger, freezes the bank, teaches the composer, lets the student
roll out train tasks and pulls it towards a teacher that reads the composed experience (LOPD), publishes the
result as an immutable folder, and lets the gate compare it with the incumbent on held-out tasks.

Map. Learning: `config`, `method_config`, `objective` (the LOPD paper, nothing else), `composer`, `compressor`,
`injection`, `views`, `cold_start`, `methods/` (LOPD and every other algorithm), `team` (several processes). Round:
`round_config`, `round` (the phases), `training` (the steps), `pupil` (backbone, engine and method together),
`rollouts`, `logged`, `references`, `gate/`, `conclude`, `publish`, `resume`.
Process: `settings`, `tasks` (names and clock), `worker` (takes tasks; builds its process, loads no torch), `jobs` (what they do),
`schedule`, `heart` (signs of life) and `health` (asks for them), `index_door`, `folder_queue`; `round_watch` starts each claimed
round as a fresh `round_process` (builds the other process) under a `lease`.

What it must not know: HTTP, the deployment pointer beyond reading it, or anything of `service`. The two meet at a
task name with an id, a ledger row and an adapter folder. Nothing here is imported by the serving path.

Where the next thing goes. Another objective: a file in `methods/`. Another verdict rule: `gate/statistics`.
Another thing to do in the background: a name in `tasks`, a method in `jobs`.

Decided. The ledger is the truth and messages are wake-up calls: they are acknowledged at once, may be lost or doubled,
and a poll finds what they announced. A round never runs in the process that takes tasks: CUDA can't be forked, and a
process that ran out of memory gives it back by ending. Three attempts, then a line in the audit log. Every draw has its own seed, so a resumed round does what it would have done.
One fence per claim guards every write. Time-outs never decide who is right; the fence does.
"""
