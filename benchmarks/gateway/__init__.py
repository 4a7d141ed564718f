"""What the gateway adds to an engine: the same prompts straight to a server and through the gateway, in one run.

`upstream` is a server with vLLM's answers and no model, so that all the time is ours: it speaks tokens to the gateway and chat to
the client that goes around it. `serve` is the gateway over it, with its durable record. `measure` asks both, `__main__` prints.
"""
