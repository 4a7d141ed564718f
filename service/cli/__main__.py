"""`python -m service.cli`: the same as `ratchet`, for children that must run in this interpreter."""

from service.cli.program import main

main()
