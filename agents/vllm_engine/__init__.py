"""The engine of production: a client of vLLM's OpenAI server, torch-free.

- `model` is the base as this process knows it: digests, template, end tokens; read once.
- `wire` speaks HTTP: pool, time-outs, and which answer is which fault; `schemas` are the answers.
- `shelf` loads, unloads and lists versions of one server; `engine` asks for replies.
- `launch` is the command line and environment of a server on this machine, CPU or CUDA.

Decisions. Prompts are rendered here and go out as token ids, and replies come back as token ids: what is recorded is what
was computed, no parser of the server stands between, and arguments that are no JSON survive. A version's name stands in
every request and is compared with the answer's: vLLM answers with the base when `model` is empty. Names and folders are
immutable and never reused, `load_inplace` is never sent: the server's prefix cache is keyed by name and path. An unload
waits for the requests of this process, because vLLM answers 404 to those that have not arrived yet.

It must not know deployments, leases or rounds. Whether a loaded version is the trained one is the probe's question.
"""
