"""`shop`: customers, products, orders, and the rules of refunds, exchanges and credit.

The back end enforces the rules that it can check: days, stock, states, amounts. Two facts it cannot check: the reason
of a return, and whether an order was late. The handbook of the agents that change orders covers those.

The docstrings of the tools are their descriptions for the model, so they are part of the tool surface and its hash.
"""

from __future__ import annotations

import datetime
from typing import Any, ClassVar, Literal

from marft_envs.tasks.tools.definition import ToolError, tool
from marft_envs.tasks.tools.world import World


class Shop(World):
    """Customers, products and orders, with the tools of customer service."""

    name = "shop"
    handbook: ClassVar = {
        "refund_order": "Give the true reason of a refund: 'damaged' only where the customer says it came broken.",
        "give_credit": "Credit is only for orders that were delivered after the promised day.",
        "deny_request": "A request that a rule forbids is denied with that rule, whatever the customer proposes.",
    }

    @tool
    def find_customer(self, name: str) -> list[dict[str, Any]]:
        """Find customers by name.

        Args:
            name: Full name, or a part of it.
        """
        found = [
            {"customer_id": id, "name": record["name"], "city": record["city"]}
            for id, record in self.state["customers"].items()
            if name.strip() and name.strip().lower() in record["name"].lower()
        ]
        if not found:
            raise ToolError(f"no customer is called {name!r}")
        return found

    @tool
    def list_orders(self, customer_id: str) -> list[dict[str, str]]:
        """List a customer's orders.

        Args:
            customer_id: Such as C123.
        """
        self.find("customers", customer_id)
        return [
            {"order_id": id, "product": self._ware(record["product"])}
            for id, record in self.state["orders"].items()
            if record["customer"] == customer_id
        ]

    @tool
    def find_products(self, name: str) -> list[dict[str, str]]:
        """Find products by name.

        Args:
            name: Such as mug.
        """
        found = [
            {"product_id": id, "name": record["name"], "colour": record["colour"]}
            for id, record in self.state["products"].items()
            if record["name"] == name.strip().lower()
        ]
        if not found:
            names = sorted({record["name"] for _, record in self.state["products"].items()})
            raise ToolError(f"no product is called {name!r}; there are {', '.join(names)}")
        return found

    @tool
    def get_order(self, order_id: str) -> dict[str, Any]:
        """Read an order: what was bought and paid, its status, promised and delivered day.

        Args:
            order_id: Such as O123.
        """
        return {"order_id": order_id} | _without_blanks(self._order(order_id))

    @tool
    def get_product(self, product_id: str) -> dict[str, Any]:
        """Read a product: its price and stock.

        Args:
            product_id: Such as P123.
        """
        found = self.find("products", product_id)
        return {"product_id": product_id} | _without_blanks(found)

    @tool
    def get_policy(self, topic: Literal["refund", "exchange", "credit"]) -> dict[str, Any]:
        """Read the numbers of a rule, and today's date.

        Args:
            topic: Of the rule.
        """
        return {"topic": topic, **self._rule(topic), "today": self._rule("today")["date"]}

    @tool
    def cancel_order(self, order_id: str) -> dict[str, Any]:
        """Cancel an order that is still processing; all that was paid is refunded.

        Args:
            order_id: Such as O123.
        """
        order = self._in_state(order_id, "processing", "cancelled")
        order["status"] = "cancelled"
        self._restock(order["product"], order["quantity"])
        return self._pay_back(order_id, order["paid"], "cancelled")

    @tool
    def change_address(self, order_id: str, city: str) -> dict[str, str]:
        """Send an order that is still processing to another city.

        Args:
            order_id: Such as O123.
            city: The new city.
        """
        order = self._in_state(order_id, "processing", "sent elsewhere")
        if not city.strip() or city == order["ship_to"]:
            raise ToolError(f"order {order_id} goes to {order['ship_to']} already; give another city")
        order["ship_to"] = city
        return {"order_id": order_id, "ship_to": city}

    @tool
    def exchange_order(self, order_id: str, product_id: str) -> dict[str, Any]:
        """Exchange a delivered order for the same product in another colour, if it is in stock.

        Args:
            order_id: Such as O123.
            product_id: The new product. A difference in price goes to the customer's credit.
        """
        order = self._in_state(order_id, "delivered", "exchanged")
        old = self.find("products", order["product"])
        new = self.find("products", product_id)
        if new["name"] != old["name"] or product_id == order["product"]:
            raise ToolError(f"{product_id} is a {self._ware(product_id)}; wanted another colour of {old['name']}")
        self._within("exchange", order, self._rule("exchange")["days"])
        if new["stock"] < order["quantity"]:
            raise ToolError(f"{product_id}: {new['stock']} in stock, wanted {order['quantity']}")
        cost = order["quantity"] * new["price"]
        to_credit = order["paid"] - cost
        self._add_credit(order["customer"], to_credit)
        self._restock(order["product"], order["quantity"])
        self._restock(product_id, -order["quantity"])
        order |= {"product": product_id, "status": "exchanged", "paid": cost}
        return {"order_id": order_id, "product": self._ware(product_id), "to_credit": to_credit}

    @tool
    def refund_order(self, order_id: str, reason: Literal["unwanted", "damaged"]) -> dict[str, Any]:
        """Take back a delivered order and refund it; what was unwanted less the restocking fee.

        Args:
            order_id: Such as O123.
            reason: Why it comes back.
        """
        order = self._in_state(order_id, "delivered", "refunded")
        rule = self._rule("refund")
        self._within("refund", order, rule["damaged_days" if reason == "damaged" else "days"])
        fee = 0 if reason == "damaged" else order["paid"] * rule["restocking_percent"] // 100
        order["status"] = "returned"
        if reason == "unwanted":
            self._restock(order["product"], order["quantity"])
        return self._pay_back(order_id, order["paid"] - fee, reason)

    @tool
    def give_credit(self, order_id: str, amount: int) -> dict[str, Any]:
        """Give the customer of an order credit for its being late, once an order.

        Args:
            order_id: Such as O123.
            amount: In dollars, at most the percentage of the credit rule, rounded down.
        """
        order = self._in_state(order_id, "delivered", "credited")
        most = order["paid"] * self._rule("credit")["percent"] // 100
        if not 1 <= amount <= most:
            raise ToolError(f"{amount} dollars for order {order_id}: wanted 1 to {most}")
        if f"K-{order_id}" in self.state["credits"]:
            raise ToolError(f"there was credit for order {order_id} already")
        self.state["credits"][f"K-{order_id}"] = {"amount": amount}
        self._add_credit(order["customer"], amount)
        return {"order_id": order_id, "credit": amount}

    @tool
    def deny_request(self, order_id: str, rule: Literal["window", "stock", "not_late"]) -> dict[str, str]:
        """Deny what was asked about an order, for good.

        Args:
            order_id: Such as O123.
            rule: Too late for it (window), nothing left (stock), or the order was not late (not_late).
        """
        self._order(order_id)
        if f"D-{order_id}" in self.state["denials"]:
            raise ToolError(f"the request about order {order_id} was denied already")
        self.state["denials"][f"D-{order_id}"] = {"rule": rule}
        return {"order_id": order_id, "denied": rule}

    # ------------------------------------------------------------- back end

    def _order(self, id: str) -> Any:
        return self.find("orders", id)

    def _rule(self, topic: str) -> Any:
        return self.find("rules", topic)

    def _ware(self, product_id: str) -> str:
        product = self.find("products", product_id)
        return f"{product['colour']} {product['name']}"

    def _in_state(self, order_id: str, status: str, wish: str) -> Any:
        order = self._order(order_id)
        if order["status"] != status:
            raise ToolError(f"order {order_id} is {order['status']}; only what is {status} can be {wish}")
        return order

    def _within(self, what: str, order: dict[str, Any], days: int) -> None:
        today = datetime.date.fromisoformat(self._rule("today")["date"])
        age = (today - datetime.date.fromisoformat(order["delivered"])).days
        if age > days:
            raise ToolError(f"delivered {age} days ago; the {what} rule allows {days} days")

    def _restock(self, product_id: str, quantity: int) -> None:
        self.find("products", product_id)["stock"] += quantity

    def _add_credit(self, customer_id: str, amount: int) -> None:
        customer = self.find("customers", customer_id)
        customer["credit"] += amount
        if customer["credit"] < 0:
            raise ToolError(f"customer {customer_id} lacks {-customer['credit']} dollars of credit for this")

    def _pay_back(self, order_id: str, amount: int, reason: str) -> dict[str, Any]:
        self.state["refunds"][f"R-{order_id}"] = {"amount": amount, "reason": reason}
        return {"order_id": order_id, "refunded": amount}


def _without_blanks(record: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in record.items() if value != ""}
