"""Embedders: what makes a task find the experiences that help it.

Asymmetric, as in LOPD (app. A.3): the document is task + compact action-result trace, the query is the task behind an
instruction. `open_embedder` (choose.py) imports only what is chosen, because minilm brings torch.

| choice  | what it is                              | held-out | train | documents/s | queries/s |
|---------|-----------------------------------------|----------|-------|-------------|-----------|
| minilm  | all-MiniLM-L6-v2 in a pip package, 384-d| 0.95     | 0.86  | 40          | 100       |
| hashing | hashed words and pairs, 256-d           | 0.40     | 0.63  | 8,000       | 50,000    |

Share of the top 3 that asks for the same kind of thing as the query, on order_desk:0: bank of 480 gold trajectories,
queries are the 208 held-out tasks (other phrasings) or the train tasks, own task excluded; one thread of a busy
two-core machine (half that speed at a load of 9). Measured before a status decided which calls are plausible;
`python tests/bank/measure_embedding.py` repeats it. The query's
wording matters: none 0.86 / 0.79, "Represent this sentence for searching relevant passages: " 0.88 / 0.79, "Find the
procedure that solved a task like this: " 0.86 / 0.77, "customer request: " 0.85 / 0.81; the one in use won on the train
tasks too, and on another house (order_desk:1: 0.84 / 0.87, without it 0.79 / 0.75).

Decision: minilm is the default. Hashing finds shared words only, which is useless for another phrasing; it is for
tests, and where no torch may be installed. `openai:<model>@<base url>` is for production (Qwen3-Embedding).
To add one: a file here with `name`, `revision`, `dimension` and the two methods, and its line in choose.py.
"""
