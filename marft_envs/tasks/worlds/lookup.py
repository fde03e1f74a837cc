"""`lookup`: hidden prices that one agent reads and another writes on labels; the smallest world.

The docstrings of the tools are their descriptions for the model, so they are part of the tool surface and its hash.
"""

from __future__ import annotations

from marft_envs.tasks.tools.definition import ToolError, tool
from marft_envs.tasks.tools.world import World


class Lookup(World):
    """A price list and labels."""

    name = "lookup"

    @tool
    def read_price(self, ware: str) -> int:
        """Read a price.

        Args:
            ware: Its name.
        """
        return int(self.find("prices", ware)["price"])

    @tool
    def write_label(self, ware: str, price: int) -> str:
        """Write a price on a label.

        Args:
            ware: Its name.
            price: The price.
        """
        label = self.find("labels", ware)
        if not 1 <= price <= 99:
            raise ToolError(f"a price is 1 to 99, not {price}")
        label["price"] = price
        return f"{ware}: {price}"
