"""The order desk as an EnvScaler world class: it answers "ok" to anything; only the final checks tell.

This file is both imported and shipped as text (`env_class_code`), so it depends on nothing.
"""

from __future__ import annotations

from typing import Any


class OrderDesk:
    """Orders of one shop; every action is logged on its order."""

    def __init__(self, init_config: dict[str, Any]) -> None:
        self.orders: dict[str, dict[str, Any]] = init_config["orders"]

    def get_order(self, order: str) -> str:
        """Status of an order."""
        return f'{{"status": "{self._find(order)["status"]}"}}'

    def set_city(self, order: str, city: str) -> str:
        """Deliver an order to another city."""
        self._find(order)["city"] = city
        return self._act(order, "set_city")

    def create_return(self, order: str) -> str:
        """Open a return for an order."""
        return self._act(order, "create_return")

    def refund(self, order: str) -> str:
        """Pay the price of an order back."""
        return self._act(order, "refund")

    def cancel(self, order: str) -> str:
        """Cancel an order."""
        return self._act(order, "cancel")

    def intercept(self, order: str) -> str:
        """Stop a parcel on its way."""
        return self._act(order, "intercept")

    def escalate(self, order: str) -> str:
        """Hand an order to a supervisor."""
        return self._act(order, "escalate")

    def message(self, order: str) -> str:
        """Send the customer a message about an order."""
        return self._act(order, "message")

    def reship(self, order: str) -> str:
        """Send an order again."""
        return self._act(order, "reship")

    def hold(self, order: str) -> str:
        """Put an order on hold."""
        return self._act(order, "hold")

    def credit(self, order: str) -> str:
        """Give the customer credit for an order."""
        return self._act(order, "credit")

    def inspect(self, order: str) -> str:
        """Ask the warehouse to inspect an order."""
        return self._act(order, "inspect")

    def _find(self, order: str) -> dict[str, Any]:
        if order not in self.orders:
            raise KeyError(f"no order {order}")
        return self.orders[order]

    def _act(self, order: str, action: str) -> str:
        self._find(order)["log"].append(action)
        return "ok"
