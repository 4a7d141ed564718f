"""Embedders: what makes a task find the experiences that help it.

Asymmetric, as in LOPD (app. A.3), where the model was trained for it: the document is task + compact action-result trace,
the query is the task behind an instruction. MiniLM was trained on pairs of alike sentences; it reads the task alone on
both sides (`Embedder.reads_trace`). `open_embedder` (choose.py) imports only what is chosen, because minilm brings torch.

| choice                              | same kind, held-out / train | needed rule shown, held-out / train | documents/s |
|-------------------------------------|-----------------------------|-------------------------------------|-------------|
| hashing (words and pairs, 256-d)    | 0.38 / 0.65                 | 0.31 / 0.52                         | 18,500      |
| minilm, task (in use; 384-d)        | 0.77 / 0.77                 | 0.67 / 0.68                         | 390         |
| minilm, task and trace              | 0.70 / 0.63                 | 0.60 / 0.57                         | 96          |
| minilm, task and trace, instruction | 0.69 / 0.62                 | 0.60 / 0.55                         | 94          |

Share of the top 3 with the query's kind of request, and share of queries whose top 3 show the very rule they need; bank
of 112 solved tasks of order_desk:0 skewed as a weak base fills it, own task excluded, one thread of a busy two-core
machine. `python tests/bank/measure_embedding.py` repeats it. A full bank hides the difference: with all 480 gold
trajectories the instruction looked best, and was in use until a teacher's ceiling was traced to retrieval.

Decision: minilm is the default. Hashing finds shared words only, which is useless for another phrasing; it is for
tests, and where no torch may be installed. `openai:<model>@<base url>` is for production (Qwen3-Embedding).
To add one: a file here with `name`, `revision`, `dimension` and the two methods, and its line in choose.py.
"""
