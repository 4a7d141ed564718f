"""The agent: loop, tools, parsing, worlds, engine clients, and the identity of a policy.

What happens here: `loop.run_episode` asks an `Engine` for a reply of one explicit version, checks and
dispatches the tool calls into a `Session`, and returns an `Episode` with the exact tokens that were sampled.
Failures are a stop, a tool error back to the model, or a boundary fault recorded as data; see `loop`.

What this room must not know: HTTP, the ledger's SQL, rounds, objectives. It imports `bank` for its domain
types only. No module imports torch, except those of `transformers_engine`, imported when that engine is chosen.

Where to add the next thing:
- an engine: a package beside `transformers_engine`, held to `tests/agents/engine_contract.py`;
- a tool-call format: a module in `parsing`, with one reader for one-shot and streaming;
- a world: a package in `worlds`, and one line in `suites.SUITES`; trusted code only, foreign code needs a process;
- a kind of tools: a `tools.toolset.Toolset` beside `tools.python_tools`, one line in `toolsets`.

Decisions:
- The message list is the trajectory; nothing is re-tokenised or re-assembled for training.
- A version is named in every request and checked in every reply, so a run can't fall back to the base silently.
- Tool calls that can't be read stay calls with their raw text: the model hears what was wrong, and the
  repeat guard counts it. Names match exactly, arguments are checked against the schema before dispatch.
- The deadline of a run is one timer of the event loop around engine and tools; blocking functions get processes
  that can be killed. What tools fetch goes through `tools.fetch`, which checks the address it dials.
- Calls of one reply start in order and may overlap while they wait; their observations keep the order.
"""
