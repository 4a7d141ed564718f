"""What customers of the order desk ask for, and which calls are plausible for each kind of request."""

from __future__ import annotations

from dataclasses import dataclass

CITIES = ("Oslo", "Lima", "Rome", "Cairo", "Paris", "Delhi", "Quito", "Tunis")
ORDERS = tuple(str(number) for number in range(10, 100))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request."""

    name: str
    statuses: tuple[str, str]
    """What `get_order` may show; a house has one procedure for each."""
    actions: tuple[tuple[str, str, str, str], tuple[str, str, str, str]]
    """Plausible calls under either status; a procedure is an ordered choice among them."""
    phrases: tuple[str, ...]
    """Phrasings of served train tasks."""
    held_out_phrases: tuple[str, ...]
    """Phrasings of held-out tasks only: the split is by template, not by row."""


KINDS = (
    Kind(
        "cancel",
        ("packed", "shipped"),
        (("cancel", "hold", "message", "refund"), ("intercept", "create_return", "escalate", "credit")),
        (
            "please cancel order {order}",
            "I do not want order {order} any more",
            "stop order {order}",
            "cancel my order {order} today",
        ),
        ("I want to cancel order {order}", "please stop my order {order}"),
    ),
    Kind(
        "refund",
        ("shipped", "delivered"),
        (("intercept", "hold", "message", "escalate"), ("refund", "create_return", "credit", "inspect")),
        (
            "I want my money back for order {order}",
            "please refund order {order}",
            "money back for order {order} please",
            "I ask for a refund of order {order}",
        ),
        ("please give my money back for order {order}", "I want a refund of order {order}"),
    ),
    Kind(
        "move",
        ("packed", "shipped"),
        (("set_city", "hold", "message", "cancel"), ("intercept", "reship", "escalate", "credit")),
        (
            "please send order {order} to {city}",
            "I moved to {city} , order {order} must go there",
            "new address for order {order} is {city}",
            "order {order} should go to {city}",
        ),
        ("my address is now {city} , send order {order} there", "please move order {order} to {city}"),
    ),
    Kind(
        "late",
        ("shipped", "lost"),
        (("message", "credit", "hold", "escalate"), ("reship", "refund", "inspect", "cancel")),
        (
            "order {order} is late",
            "where is order {order}",
            "I still wait for order {order}",
            "order {order} did not come",
        ),
        ("my order {order} is so late", "I wait for order {order} , where is it"),
    ),
    Kind(
        "broken",
        ("delivered", "returned"),
        (("create_return", "inspect", "credit", "message"), ("reship", "refund", "escalate", "hold")),
        (
            "order {order} came broken",
            "my order {order} is broken",
            "order {order} does not work",
            "the box of order {order} is damaged",
        ),
        ("order {order} is damaged", "my order {order} came broken"),
    ),
    Kind(
        "wrong",
        ("delivered", "returned"),
        (("create_return", "message", "reship", "credit"), ("refund", "inspect", "escalate", "cancel")),
        (
            "order {order} has the wrong item",
            "you sent the wrong thing in order {order}",
            "order {order} is not what I ordered",
            "wrong color in order {order}",
        ),
        ("my order {order} has the wrong color", "the item in order {order} is wrong"),
    ),
    Kind(
        "missing",
        ("packed", "delivered"),
        (("inspect", "hold", "reship", "cancel"), ("credit", "refund", "escalate", "message")),
        (
            "a part of order {order} is missing",
            "order {order} is not complete",
            "one item of order {order} is missing",
            "half of order {order} is missing",
        ),
        ("my order {order} is not complete", "a thing of order {order} is missing"),
    ),
    Kind(
        "charged",
        ("packed", "lost"),
        (("cancel", "hold", "inspect", "message"), ("refund", "credit", "escalate", "reship")),
        (
            "I paid twice for order {order}",
            "you charged me twice for order {order}",
            "the price of order {order} is too high",
            "order {order} was charged two times",
        ),
        ("I was charged twice for order {order}", "I paid too much for order {order}"),
    ),
)
