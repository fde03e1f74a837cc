"""Every tool: what it refuses, in which words, and that a refusal changes nothing."""

from __future__ import annotations

import json

import pytest

from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.definition import ArgumentError
from marft_envs.tasks.tools.execution import ToolLimits, execute
from marft_envs.tasks.tools.goals import find
from tests.marft_envs.tasks.worlds.world_games import KINDS, NAMES, cached_tasks

SHOP = {
    "rules": {
        "refund": {"days": 30, "damaged_days": 90, "restocking_percent": 10},
        "exchange": {"days": 60},
        "credit": {"percent": 20},
        "today": {"date": "2025-06-30"},
    },
    "customers": {"C1": {"name": "Ana Silva", "city": "Porto", "credit": 0}},
    "products": {
        "P1": {"name": "mug", "colour": "blue", "price": 10, "stock": 5, "note": ""},
        "P2": {"name": "mug", "colour": "red", "price": 12, "stock": 1, "note": ""},
        "P3": {"name": "lamp", "colour": "red", "price": 12, "stock": 5, "note": ""},
        "P4": {"name": "mug", "colour": "grey", "price": 8, "stock": 9, "note": ""},
    },
    "orders": {
        "O1": {"customer": "C1", "product": "P1", "quantity": 2, "paid": 20, "status": "processing", "ship_to": "Porto",
               "promised": "2025-07-02", "delivered": "", "note": ""},
        "O2": {"customer": "C1", "product": "P1", "quantity": 2, "paid": 20, "status": "delivered", "ship_to": "Porto",
               "promised": "2025-05-01", "delivered": "2025-05-20", "note": ""},
        "O3": {"customer": "C1", "product": "P1", "quantity": 1, "paid": 10, "status": "delivered", "ship_to": "Porto",
               "promised": "2025-06-01", "delivered": "2025-06-10", "note": ""},
        "O4": {"customer": "C1", "product": "P1", "quantity": 1, "paid": 10, "status": "delivered", "ship_to": "Porto",
               "promised": "2025-02-01", "delivered": "2025-02-10", "note": ""},
        "O5": {"customer": "C1", "product": "P1", "quantity": 1, "paid": 10, "status": "delivered", "ship_to": "Porto",
               "promised": "2025-06-01", "delivered": "2025-05-30", "note": ""},
        "O6": {"customer": "C1", "product": "P1", "quantity": 1, "paid": 10, "status": "delivered", "ship_to": "Porto",
               "promised": "2025-06-01", "delivered": "2025-05-31", "note": ""},
    },
    "refunds": {},
    "credits": {"K-O3": {"amount": 2}},
    "denials": {"D-O3": {"rule": "stock"}},
}  # fmt: skip
DESK = {
    "people": {
        "ana": {"team": "finance", "lead": True, "away": False},
        "ben": {"team": "finance", "lead": False, "away": True},
        "eva": {"team": "network", "lead": True, "away": False},
    },
    "folders": {
        "open": {"team": "finance", "locked": False, "access": ["ana"]},
        "shut": {"team": "finance", "locked": True, "access": ["ana"]},
    },
    "files": {
        "open/a.txt": {"text": "one two two"},
        "open/b.txt": {"text": "b"},
        "shut/a.txt": {"text": "one"},
    },
    "tickets": {
        "T1": {"title": "door", "team": "finance", "state": "new", "priority": "low", "assignee": "",
               "blocked_by": "", "approved_by": "", "note": ""},
        "T2": {"title": "lamp", "team": "finance", "state": "open", "priority": "low", "assignee": "ana",
               "blocked_by": "T1", "approved_by": "", "note": ""},
        "T3": {"title": "desk", "team": "finance", "state": "done", "priority": "low", "assignee": "ana",
               "blocked_by": "", "approved_by": "", "note": ""},
    },
}  # fmt: skip
TRAVEL = {
    "rules": {"travel": {"max_night": 100, "max_stars": 4}},
    "travellers": {"Ana": {"home": "Rome", "budget": 150}, "Ben": {"home": "Rome", "budget": 900}},
    "meetings": {},
    "flights": {
        "F1": {"origin": "Rome", "destination": "Oslo", "date": "2025-06-01", "departs": "08:00", "arrives": "10:00",
               "price": 100, "seats": 0, "cabin": "economy", "refundable": True, "note": ""},
        "F2": {"origin": "Rome", "destination": "Oslo", "date": "2025-06-01", "departs": "09:00", "arrives": "11:00",
               "price": 200, "seats": 3, "cabin": "economy", "refundable": False, "note": ""},
        "F3": {"origin": "Rome", "destination": "Oslo", "date": "2025-06-01", "departs": "09:00", "arrives": "11:00",
               "price": 20, "seats": 3, "cabin": "economy", "refundable": True, "note": ""},
    },
    "hotels": {
        "H1": {"name": "Park Hotel", "city": "Oslo", "stars": 3, "price": 80, "rooms": 0, "refundable": True,
               "note": ""},
        "H2": {"name": "Tower Hotel", "city": "Oslo", "stars": 3, "price": 80, "rooms": 2, "refundable": True,
               "note": ""},
    },
    "bookings": {
        "B-Ana-F2": {"traveller": "Ana", "item": "F2", "date": "2025-06-01", "nights": 0, "paid": 200},
        "B-Ana-F3": {"traveller": "Ana", "item": "F3", "date": "2025-06-01", "nights": 0, "paid": 20},
    },
    "approvals": {"A-Ana-F2": {"state": "asked"}},
}  # fmt: skip
LOOKUP = {"prices": {"pear": {"price": 7}}, "labels": {"pear": {"price": 0}}}
STATES = {"shop": SHOP, "desk": DESK, "travel": TRAVEL, "lookup": LOOKUP}

REFUSED = [
    ("lookup", "read_price", {"ware": "plum"}, "prices has no 'plum'"),
    ("lookup", "write_label", {"ware": "plum", "price": 7}, "labels has no 'plum'"),
    ("lookup", "write_label", {"ware": "pear", "price": 100}, "a price is 1 to 99, not 100"),
    ("shop", "find_customer", {"name": "Ben"}, "no customer is called 'Ben'"),
    ("shop", "find_customer", {"name": " "}, "no customer is called ' '"),
    ("shop", "list_orders", {"customer_id": "C9"}, "customers has no 'C9'"),
    ("shop", "find_products", {"name": "cup"}, "no product is called 'cup'; there are lamp, mug"),
    ("shop", "get_order", {"order_id": "O9"}, "orders has no 'O9'"),
    ("shop", "get_product", {"product_id": "P9"}, "products has no 'P9'"),
    ("shop", "cancel_order", {"order_id": "O2"}, "order O2 is delivered; only what is processing can be cancelled"),
    ("shop", "change_address", {"order_id": "O2", "city": "Lyon"}, "only what is processing can be sent elsewhere"),
    ("shop", "change_address", {"order_id": "O1", "city": "Porto"}, "order O1 goes to Porto already"),
    ("shop", "change_address", {"order_id": "O1", "city": " "}, "give another city"),
    ("shop", "exchange_order", {"order_id": "O1", "product_id": "P2"}, "only what is delivered can be exchanged"),
    ("shop", "exchange_order", {"order_id": "O2", "product_id": "P3"}, "is a red lamp; wanted another colour of mug"),
    ("shop", "exchange_order", {"order_id": "O2", "product_id": "P1"}, "is a blue mug; wanted another colour of mug"),
    ("shop", "exchange_order", {"order_id": "O2", "product_id": "P2"}, "P2: 1 in stock, wanted 2"),
    ("shop", "exchange_order", {"order_id": "O3", "product_id": "P2"}, "C1 lacks 2 dollars of credit"),
    ("shop", "exchange_order", {"order_id": "O4", "product_id": "P4"}, "140 days ago; the exchange rule allows 60"),
    ("shop", "refund_order", {"order_id": "O1", "reason": "unwanted"}, "only what is delivered can be refunded"),
    ("shop", "refund_order", {"order_id": "O2", "reason": "unwanted"}, "41 days ago; the refund rule allows 30 days"),
    ("shop", "refund_order", {"order_id": "O5", "reason": "unwanted"}, "31 days ago; the refund rule allows 30 days"),
    ("shop", "refund_order", {"order_id": "O4", "reason": "damaged"}, "140 days ago; the refund rule allows 90 days"),
    ("shop", "give_credit", {"order_id": "O1", "amount": 1}, "only what is delivered can be credited"),
    ("shop", "give_credit", {"order_id": "O2", "amount": 5}, "5 dollars for order O2: wanted 1 to 4"),
    ("shop", "give_credit", {"order_id": "O2", "amount": 0}, "wanted 1 to 4"),
    ("shop", "give_credit", {"order_id": "O3", "amount": 1}, "there was credit for order O3 already"),
    ("shop", "deny_request", {"order_id": "O9", "rule": "window"}, "orders has no 'O9'"),
    ("shop", "deny_request", {"order_id": "O3", "rule": "window"}, "about order O3 was denied already"),
    ("desk", "search_tickets", {"word": "tree"}, "no ticket has 'tree' in its title"),
    ("desk", "list_people", {"team": "sales"}, "no team 'sales'; there are finance, network"),
    ("desk", "list_files", {"folder": "attic"}, "folders has no 'attic'"),
    ("desk", "search_files", {"word": "three"}, "no file has 'three' in its text"),
    ("desk", "get_ticket", {"ticket_id": "T9"}, "tickets has no 'T9'"),
    ("desk", "get_person", {"person": "zoe"}, "people has no 'zoe'"),
    ("desk", "get_folder", {"folder": "attic"}, "folders has no 'attic'"),
    ("desk", "read_file", {"path": "a.txt"}, "files has no 'a.txt'"),
    ("desk", "assign_ticket", {"ticket_id": "T3", "person": "ana"}, "ticket T3 is done; only others can be assigned"),
    ("desk", "assign_ticket", {"ticket_id": "T1", "person": "eva"}, "eva is in network; ticket T1 belongs to finance"),
    ("desk", "assign_ticket", {"ticket_id": "T1", "person": "ben"}, "ben is away"),
    ("desk", "set_state", {"ticket_id": "T1", "state": "done"}, "ticket T1 is new; it can become open"),
    ("desk", "set_state", {"ticket_id": "T1", "state": "open"}, "ticket T1 has no assignee; assign it first"),
    ("desk", "set_state", {"ticket_id": "T2", "state": "done"}, "ticket T2 is blocked by T1, which is not done"),
    ("desk", "set_state", {"ticket_id": "T3", "state": "open"}, "ticket T3 is done; it stays so"),
    ("desk", "set_priority", {"ticket_id": "T3", "priority": "high"}, "ticket T3 is done; its priority stays"),
    ("desk", "move_file", {"path": "shut/a.txt", "folder": "open"}, "folder shut is locked"),
    ("desk", "move_file", {"path": "open/b.txt", "folder": "shut"}, "folder shut is locked"),
    ("desk", "move_file", {"path": "open/b.txt", "folder": "attic"}, "folders has no 'attic'"),
    ("desk", "move_file", {"path": "open/a.txt", "folder": "open"}, "there is a file open/a.txt already"),
    ("desk", "replace_text", {"path": "shut/a.txt", "old": "one", "new": "1"}, "folder shut is locked"),
    ("desk", "replace_text", {"path": "open/a.txt", "old": "two", "new": "2"}, "has 'two' 2 times; wanted exactly"),
    ("desk", "replace_text", {"path": "open/a.txt", "old": "", "new": "2"}, "has '' 0 times; wanted exactly once"),
    ("desk", "grant_access", {"folder": "open", "person": "ana"}, "ana has access to open already"),
    ("desk", "grant_access", {"folder": "open", "person": "zoe"}, "people has no 'zoe'"),
    ("travel", "search_flights", {"origin": "Rome", "destination": "Riga", "date": "2025-06-01"}, "no flight from"),
    ("travel", "search_hotels", {"city": "Riga"}, "no hotel in Riga; there are hotels in Oslo"),
    ("travel", "list_bookings", {"traveller": "Zoe"}, "travellers has no 'Zoe'"),
    ("travel", "list_meetings", {"traveller": "Zoe"}, "travellers has no 'Zoe'"),
    ("travel", "get_traveller", {"name": "Zoe"}, "travellers has no 'Zoe'"),
    ("travel", "get_meeting", {"meeting": "M9"}, "meetings has no 'M9'"),
    ("travel", "get_flight", {"flight": "F9"}, "flights has no 'F9'"),
    ("travel", "get_hotel", {"hotel": "H9"}, "hotels has no 'H9'"),
    ("travel", "book_flight", {"traveller": "Ana", "flight": "F1"}, "flight F1 has no seat left"),
    ("travel", "book_flight", {"traveller": "Ana", "flight": "F2"}, "F2 costs 200, but Ana has 150 left"),
    ("travel", "book_flight", {"traveller": "Ana", "flight": "F3"}, "Ana has booked F3 already"),
    ("travel", "book_hotel", {"traveller": "Ben", "hotel": "H1", "date": "2025-06-01", "nights": 1}, "H1 has no room"),
    ("travel", "book_hotel", {"traveller": "Ana", "hotel": "H2", "date": "2025-06-01", "nights": 2}, "H2 costs 160"),
    ("travel", "book_hotel", {"traveller": "Ben", "hotel": "H2", "date": "1 June", "nights": 1}, "the date '1 June'"),
    ("travel", "book_hotel", {"traveller": "Ben", "hotel": "H2", "date": "2025-06-01", "nights": 15}, "wanted 1 to 14"),
    ("travel", "cancel_booking", {"booking": "B-Ana-F2"}, "B-Ana-F2 is not refundable; it stays"),
    ("travel", "cancel_booking", {"booking": "B-Ben-F2"}, "bookings has no 'B-Ben-F2'"),
    ("travel", "ask_approval", {"traveller": "Ana", "item": "X1"}, "no flight or hotel 'X1'"),
    ("travel", "ask_approval", {"traveller": "Ana", "item": "F2"}, "approval of F2 was asked for already"),
]  # fmt: skip


def call(world, name, arguments, state=None):
    kind = KINDS[world]
    text = json.dumps(STATES[world] if state is None else state)
    return execute(kind, kind.tools()[name], arguments, text, ToolLimits()), text


@pytest.mark.parametrize(("world", "name", "arguments", "message"), REFUSED)
def test_a_refusal_says_why_and_changes_nothing(world, name, arguments, message):
    done, before = call(world, name, arguments)
    assert done.status == "error"
    assert message in done.text
    assert "the tool failed" not in done.text
    assert done.state == before


def test_every_tool_with_arguments_has_a_refusal():
    covered = {(world, name) for world, name, _, _ in REFUSED}
    for world, kind in KINDS.items():
        for name, tool in kind.tools().items():
            if tool.parameters["properties"] and name != "get_policy":
                assert (world, name) in covered, (world, name)


def test_a_rule_that_does_not_exist_is_refused_by_the_schema():
    tool = KINDS["shop"].tools()["get_policy"]
    with pytest.raises(ArgumentError, match='wanted one of "refund", "exchange", "credit"'):
        tool.read_arguments(Call("get_policy", {"topic": "loans"}))


@pytest.mark.parametrize(
    ("world", "name", "arguments", "changed"),
    [
        ("shop", "cancel_order", {"order_id": "O1"},
         {"orders/O1/status": "cancelled", "products/P1/stock": 7, "refunds/R-O1/amount": 20,
          "refunds/R-O1/reason": "cancelled"}),
        ("shop", "refund_order", {"order_id": "O3", "reason": "unwanted"},
         {"orders/O3/status": "returned", "products/P1/stock": 6, "refunds/R-O3/amount": 9,
          "refunds/R-O3/reason": "unwanted"}),
        ("shop", "refund_order", {"order_id": "O6", "reason": "unwanted"}, {"refunds/R-O6/amount": 9}),
        ("shop", "refund_order", {"order_id": "O3", "reason": "damaged"},
         {"orders/O3/status": "returned", "refunds/R-O3/amount": 10, "refunds/R-O3/reason": "damaged"}),
        ("shop", "exchange_order", {"order_id": "O2", "product_id": "P4"},
         {"orders/O2/status": "exchanged", "orders/O2/product": "P4", "orders/O2/paid": 16, "customers/C1/credit": 4,
          "products/P1/stock": 7, "products/P4/stock": 7}),
        ("shop", "give_credit", {"order_id": "O2", "amount": 4}, {"customers/C1/credit": 4, "credits/K-O2/amount": 4}),
        ("desk", "move_file", {"path": "open/b.txt", "folder": "open2"}, {"files/open2~1b.txt/text": "b"}),
        ("desk", "set_state", {"ticket_id": "T2", "state": "waiting"}, {"tickets/T2/state": "waiting"}),
        ("travel", "book_hotel", {"traveller": "Ben", "hotel": "H2", "date": "2025-06-01", "nights": 3},
         {"hotels/H2/rooms": 1, "travellers/Ben/budget": 660, "bookings/B-Ben-H2/paid": 240,
          "bookings/B-Ben-H2/nights": 3}),
        ("travel", "cancel_booking", {"booking": "B-Ana-F3"}, {"flights/F3/seats": 4, "travellers/Ana/budget": 170}),
    ],
)  # fmt: skip
def test_what_a_tool_changes_worked_by_hand(world, name, arguments, changed):
    state = json.loads(json.dumps(STATES[world]))
    if "open2" in arguments.values():
        state["folders"]["open2"] = {"team": "finance", "locked": False, "access": []}
    done, _ = call(world, name, arguments, state)
    assert done.status == "ok", done.text
    after = json.loads(done.state)
    assert {path: find(after, path) for path in changed} == changed


@pytest.mark.parametrize("world", NAMES)
def test_looking_changes_nothing(world):
    """Every call of a reference script that only looks leaves the state as it was, byte for byte."""
    kind = KINDS[world]
    looks = ("find_", "list_", "get_", "search_", "read_")
    for task in cached_tasks(f"embedded:{world}", "test"):
        for each in task.reference:
            if each.name.startswith(looks):
                done = execute(kind, kind.tools()[each.name], each.arguments, task.start, ToolLimits())
                assert json.loads(done.state) == task.state


@pytest.mark.parametrize(("world", "least"), [("lookup", 2), ("shop", 8), ("desk", 8), ("travel", 8)])
def test_a_world_has_its_tools_described(world, least):
    tools = KINDS[world].tools()
    assert least <= len(tools) <= 15
    for tool in tools.values():
        assert tool.description.endswith(".")
        assert all(schema.get("description") for schema in tool.parameters["properties"].values()), tool.name
    assert set(KINDS[world].handbook) <= set(tools)
