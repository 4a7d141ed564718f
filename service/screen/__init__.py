"""What a terminal shows: tables, one-line charts and live progress, from the API's JSON bodies.

What it does: turns a body of the HTTP surface into rich output. The command line and the demo share
it, so a round looks the same in both.

What it must not know: how a body was fetched (only `round_watch` and `live_lines` poll, through the
client they are given), and nothing of ledger, engine or trainer.

Where to add the next view: a file named after what it shows, with `print_<thing>(console, body)`.

Decision: without a terminal (CI, a log file) nothing redraws; progress becomes one line per step, so
that a log can be read afterwards.
"""
