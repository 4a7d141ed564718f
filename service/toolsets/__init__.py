"""Toolsets: what runs may be given to work with."""
