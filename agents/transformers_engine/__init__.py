"""The in-process engine: transformers + PEFT behind the `Engine` protocol.

The only part of `agents` that needs torch; nobody imports it unless this engine was chosen.

- `backbone` loads the frozen base once; the trainer's adapters live in the same model.
- `prompt` renders messages and tools to token ids; what was sampled is never re-tokenised.
- `folder` verifies a published adapter; `residents` knows which versions are loaded; `lending` switches between them;
  `peft_state` adds and removes adapters without PEFT's side effects.
- `rows`, `cache`, `prefixes`, `sampling`, `attention` are the parts of `decode`: continuous batching over left-padded
  rows, one forward for all versions together.
- `worker` owns the model: one thread runs every forward, load and unload; `engine` is its async face.

Decisions. The base is never merged into or written to: versions are switched, and a mixed batch uses PEFT's
`adapter_names`. Every burst of decoding puts active adapters and `requires_grad` flags back, because the trainer differentiates
through the same modules; so training and generation must take turns, which one round does by itself. Keys and values of
finished conversations are kept for their next turn, since a turn's prompt repeats everything before it. Randomness is
one generator per row, so neighbours can't change a reply beyond the rounding of the matrix products.

It must not know tasks, rewards, the ledger, or deployments. A faster server (vLLM) is another module beside this package.
"""
