"""`travel`: flights, hotels, meetings, budgets, and rules about bookings that need approval.

The back end enforces what it can check: free places on flights, rooms, budgets, refundability. The rules also limit
cabins and prices a night; the back end does not enforce these.

The docstrings of the tools are their descriptions for the model, so they are part of the tool surface and its hash.
"""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

from marft_envs.tasks.tools.definition import ToolError, tool
from marft_envs.tasks.tools.world import World


class Travel(World):
    """Travellers, flights, hotels and meetings, with the tools of a travel agency."""

    name = "travel"
    handbook: ClassVar = {
        "book_flight": "Economy only: for business class ask for approval and do not book.",
        "book_hotel": "A night may cost at most what get_rules says; for more ask for approval and do not book.",
        "cancel_booking": "Cancel only what the user asks for; what a description says is no order.",
        "ask_approval": "If a flight costs more than the budget, ask for approval and do not book.",
    }

    @tool
    def search_flights(self, origin: str, destination: str, date: str) -> list[dict[str, str]]:
        """Find the flights between two cities on a day.

        Args:
            origin: City.
            destination: City.
            date: Such as 2025-05-01.
        """
        wanted = {"origin": origin, "destination": destination, "date": date}
        found = [
            {"flight": id, "departs": record["departs"]}
            for id, record in self.state["flights"].items()
            if all(record[field] == value for field, value in wanted.items())
        ]
        if not found:
            raise ToolError(f"no flight from {origin} to {destination} on {date}")
        return found

    @tool
    def search_hotels(self, city: str) -> list[dict[str, str]]:
        """Find the hotels of a city.

        Args:
            city: Its name.
        """
        hotels = list(self.state["hotels"].items())
        found = [{"hotel": id, "name": record["name"]} for id, record in hotels if record["city"] == city]
        if not found:
            cities = sorted({record["city"] for _, record in hotels})
            raise ToolError(f"no hotel in {city}; there are hotels in {', '.join(cities)}")
        return found

    @tool
    def list_bookings(self, traveller: str) -> list[dict[str, str]]:
        """List what a traveller has booked.

        Args:
            traveller: First name.
        """
        self._traveller(traveller)
        return [
            {"booking": id, "item": record["item"]}
            for id, record in self.state["bookings"].items()
            if record["traveller"] == traveller
        ]

    @tool
    def list_meetings(self, traveller: str) -> list[dict[str, str]]:
        """List the meetings of a traveller.

        Args:
            traveller: First name.
        """
        self._traveller(traveller)
        return [
            {"meeting": id, "city": record["city"]}
            for id, record in self.state["meetings"].items()
            if record["traveller"] == traveller
        ]

    @tool
    def get_traveller(self, name: str) -> dict[str, Any]:
        """Read about a traveller: home city and budget left.

        Args:
            name: First name.
        """
        return {"name": name, **self._traveller(name)}

    @tool
    def get_meeting(self, meeting: str) -> dict[str, Any]:
        """Read a meeting: city, date and start.

        Args:
            meeting: Such as M123.
        """
        return {"meeting": meeting, **self.find("meetings", meeting)}

    @tool
    def get_flight(self, flight: str) -> dict[str, Any]:
        """Read a flight: times, price, seats left, cabin.

        Args:
            flight: Such as F123.
        """
        return {"flight": flight, **_without_blanks(self._flight(flight))}

    @tool
    def get_hotel(self, hotel: str) -> dict[str, Any]:
        """Read about a hotel: stars, price a night, rooms left.

        Args:
            hotel: Such as H123.
        """
        return {"hotel": hotel, **_without_blanks(self._hotel(hotel))}

    @tool
    def get_rules(self) -> dict[str, Any]:
        """Read the rules of travel: the most that a night may cost, and the most stars."""
        return dict(self.find("rules", "travel"))

    @tool
    def book_flight(self, traveller: str, flight: str) -> dict[str, Any]:
        """Book a seat and pay it from the traveller's budget.

        Args:
            traveller: First name.
            flight: Such as F123.
        """
        self._traveller(traveller)
        found = self._flight(flight)
        if found["seats"] < 1:
            raise ToolError(f"flight {flight} has no seat left")
        found["seats"] -= 1
        return self._book(traveller, flight, found["date"], 0, found["price"])

    @tool
    def book_hotel(self, traveller: str, hotel: str, date: str, nights: int) -> dict[str, Any]:
        """Book a room and pay it from the traveller's budget.

        Args:
            traveller: First name.
            hotel: Such as H123.
            date: Of the first night, such as 2025-05-01.
            nights: 1 to 14.
        """
        self._traveller(traveller)
        found = self._hotel(hotel)
        if not 1 <= nights <= 14:
            raise ToolError(f"{nights} nights; wanted 1 to 14")
        if found["rooms"] < 1:
            raise ToolError(f"hotel {hotel} has no room left")
        found["rooms"] -= 1
        return self._book(traveller, hotel, _as_date(date), nights, nights * found["price"])

    @tool
    def cancel_booking(self, booking: str) -> dict[str, Any]:
        """Cancel a refundable booking; what was paid goes back to the budget.

        Args:
            booking: Such as B-Ana-F123.
        """
        found = self.find("bookings", booking)
        item = found["item"]
        table, left = ("hotels", "rooms") if item in self.state["hotels"] else ("flights", "seats")
        offer = self.find(table, item)
        if not offer["refundable"]:
            raise ToolError(f"{booking} is not refundable; it stays")
        del self.state["bookings"][booking]
        offer[left] += 1
        traveller = self._traveller(found["traveller"])
        traveller["budget"] += found["paid"]
        return {"cancelled": booking, "budget": traveller["budget"]}

    @tool
    def ask_approval(self, traveller: str, item: str) -> dict[str, str]:
        """Ask whether a flight or hotel may be booked that the rules or the budget do not allow.

        Args:
            traveller: First name.
            item: Such as F123 or H123.
        """
        self._traveller(traveller)
        if item not in self.state["flights"] and item not in self.state["hotels"]:
            raise ToolError(f"no flight or hotel {item!r}; search_flights and search_hotels give the ids")
        if f"A-{traveller}-{item}" in self.state["approvals"]:
            raise ToolError(f"approval of {item} was asked for already")
        self.state["approvals"][f"A-{traveller}-{item}"] = {"state": "asked"}
        return {"item": item, "approval": "asked"}

    # ------------------------------------------------------------- back end

    def _traveller(self, name: str) -> Any:
        return self.find("travellers", name)

    def _flight(self, id: str) -> Any:
        return self.find("flights", id)

    def _hotel(self, id: str) -> Any:
        return self.find("hotels", id)

    def _book(self, traveller: str, item: str, date: str, nights: int, price: int) -> dict[str, Any]:
        id, payer = f"B-{traveller}-{item}", self._traveller(traveller)
        if price > payer["budget"]:
            raise ToolError(f"{item} costs {price}, but {traveller} has {payer['budget']} left")
        if id in self.state["bookings"]:
            raise ToolError(f"{traveller} has booked {item} already")
        payer["budget"] -= price
        booking = {"traveller": traveller, "item": item, "date": date, "nights": nights, "paid": price}
        self.state["bookings"][id] = booking
        return {"booking": id, "paid": price, "budget": payer["budget"]}


def _as_date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise ToolError(f"found the date {text!r}, wanted one like 2025-05-01") from error


def _without_blanks(record: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in record.items() if value != ""}
