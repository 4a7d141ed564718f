"""Chaos: what happens to acknowledged work when processes are killed, on real databases, from one seed.

`make chaos` runs every drill, prints a table and writes reports/chaos.json. A drill is a function of a `Setting` that returns
figures; `__main__.py` lists them. To add one: a file here and its line there.
"""
