"""Methods: every published way to make a student better from the same rollouts, one file each, chosen by name.

What it does. `registry.open_method(name, ...)` builds what `method.Method` describes. A step takes judged rollouts and
moves the student once; a round, its gate and its publishing don't know which method is at work.

Map. `lopd` has its own composer and lives apart. The others are a `student_method.StudentMethod`: they plan a step as
micro-batches and say what the loss of one is. Shared, and standing once: `divergence` (KLs, JSD, k3, Rényi, importance
ratios), `policy_gradient` (group advantages, clipped surrogates, aggregation), `context` (what a text teacher reads),
`text_teacher` (the same tokens after other words), `follower` (EMA and frozen copies of the student).

What it must not know: rounds, the ledger, environments. Losses are pure functions at the top of each method's file.

Where the next thing goes. Another method: a file here, its settings in `trainer.method_config`, a line in `registry`.

Decided. `usd` and `anchored_opsd` are reconstructions from abstracts and say so wherever they are shown.
"""
