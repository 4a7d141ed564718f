"""Why the learning core stops: wiring or numerical faults, never a bad rollout (that is data)."""

from __future__ import annotations


class LearningError(Exception):
    """A step or a round that must not go on."""


class NonFinite(LearningError):
    """A loss or gradient is NaN or infinite; raised before any weight has changed."""


class NoGradient(LearningError):
    """Trained weights got no gradient at all: the graph is cut somewhere."""


class TooManyOverLong(LearningError):
    """More trajectories exceed the length limit than the configured share allows."""


class BadSpan(LearningError):
    """The latent span isn't exactly J·K positions long."""


class NoInsertionPoint(LearningError):
    """The recorded prompt doesn't begin as the chat template renders it."""


class NotAnchored(LearningError):
    """φ0 is missing: neither a cold start nor a loaded composer came before."""
