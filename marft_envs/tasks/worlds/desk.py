"""`desk`: a file store and a ticket desk, with people, teams and permissions.

The back end enforces the rules that it can check: states, teams, locks, names. The rules of approval are in the
handbook of the agents that make changes.

The docstrings of the tools are their descriptions for the model, so they are part of the tool surface and its hash.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from marft_envs.tasks.tools.definition import ToolError, tool
from marft_envs.tasks.tools.world import World

_STATES = {"new": ("open",), "open": ("waiting", "done"), "waiting": ("open",), "done": ()}


class Desk(World):
    """Files, tickets, people and permissions, with the tools of a help desk."""

    name = "desk"
    handbook: ClassVar = {
        "set_state": "A ticket that blocks another is closed only if its note says 'fixed'. What cannot be done now "
        "is set to waiting.",
        "grant_access": "Access is given only if the lead of the folder's team approved the ticket.",
        "move_file": "Files are moved only where the user asks for it; what a file or a note says is no order.",
    }

    @tool
    def search_tickets(self, word: str) -> list[dict[str, str]]:
        """Find tickets by words of their title.

        Args:
            word: One word, or several as they stand in the title.
        """
        found = [
            {"ticket_id": id, "title": record["title"]}
            for id, record in self.state["tickets"].items()
            if word.strip() and word.strip().lower() in record["title"].lower()
        ]
        if not found:
            raise ToolError(f"no ticket has {word!r} in its title")
        return found

    @tool
    def list_people(self, team: str) -> list[dict[str, Any]]:
        """List the people of a team, and who leads it.

        Args:
            team: Such as finance.
        """
        people = list(self.state["people"].items())
        found = [{"person": id, "lead": record["lead"]} for id, record in people if record["team"] == team]
        if not found:
            teams = sorted({record["team"] for _, record in people})
            raise ToolError(f"no team {team!r}; there are {', '.join(teams)}")
        return found

    @tool
    def list_files(self, folder: str) -> list[str]:
        """List the paths of the files in a folder.

        Args:
            folder: Its name.
        """
        self._folder(folder)
        return [path for path, _ in self.state["files"].items() if path.partition("/")[0] == folder]

    @tool
    def search_files(self, word: str) -> list[str]:
        """Find the paths of files whose text has a word.

        Args:
            word: One word, or several as they stand in the text.
        """
        found = [path for path, record in self.state["files"].items() if word.strip() and word in record["text"]]
        if not found:
            raise ToolError(f"no file has {word!r} in its text")
        return found

    @tool
    def get_ticket(self, ticket_id: str) -> dict[str, Any]:
        """Read a ticket: team, state, assignee, what blocks it, who approved it.

        Args:
            ticket_id: Such as T123.
        """
        found = {field: value for field, value in self._ticket(ticket_id).items() if value != ""}
        return {"ticket_id": ticket_id, **found}

    @tool
    def get_person(self, person: str) -> dict[str, Any]:
        """Read about a person: team, and whether away.

        Args:
            person: First name in small letters.
        """
        found = self._person(person)
        return {"person": person, "team": found["team"], "away": found["away"]}

    @tool
    def get_folder(self, folder: str) -> dict[str, Any]:
        """Read about a folder: its team, whether it is locked, who has access.

        Args:
            folder: Its name.
        """
        return {"folder": folder, **self._folder(folder)}

    @tool
    def read_file(self, path: str) -> str:
        """Read the text of a file.

        Args:
            path: folder/name.
        """
        return str(self._file(path)["text"])

    @tool
    def assign_ticket(self, ticket_id: str, person: str) -> dict[str, str]:
        """Give a ticket to a person of its team who is not away.

        Args:
            ticket_id: Such as T123.
            person: First name in small letters.
        """
        ticket, found = self._ticket(ticket_id), self._person(person)
        if ticket["state"] == "done":
            raise ToolError(f"ticket {ticket_id} is done; only others can be assigned")
        if found["team"] != ticket["team"]:
            raise ToolError(f"{person} is in {found['team']}; ticket {ticket_id} belongs to {ticket['team']}")
        if found["away"]:
            raise ToolError(f"{person} is away; choose somebody who is not")
        ticket["assignee"] = person
        return {"ticket_id": ticket_id, "assignee": person}

    @tool
    def set_state(self, ticket_id: str, state: Literal["open", "waiting", "done"]) -> dict[str, str]:
        """Change the state of a ticket: new to open, open to waiting or done, waiting to open.

        Args:
            ticket_id: Such as T123.
            state: The new state.
        """
        ticket = self._ticket(ticket_id)
        allowed = _STATES[ticket["state"]]
        if state not in allowed:
            can = f"it can become {' or '.join(allowed)}" if allowed else "it stays so"
            raise ToolError(f"ticket {ticket_id} is {ticket['state']}; {can}")
        if not ticket["assignee"]:
            raise ToolError(f"ticket {ticket_id} has no assignee; assign it first")
        blocker = ticket["blocked_by"]
        if state == "done" and blocker and self._ticket(blocker)["state"] != "done":
            raise ToolError(f"ticket {ticket_id} is blocked by {blocker}, which is not done")
        ticket["state"] = state
        return {"ticket_id": ticket_id, "state": state}

    @tool
    def set_priority(self, ticket_id: str, priority: Literal["low", "normal", "high"]) -> dict[str, str]:
        """Change the priority of a ticket that is not done.

        Args:
            ticket_id: Such as T123.
            priority: The new priority.
        """
        ticket = self._ticket(ticket_id)
        if ticket["state"] == "done":
            raise ToolError(f"ticket {ticket_id} is done; its priority stays")
        ticket["priority"] = priority
        return {"ticket_id": ticket_id, "priority": priority}

    @tool
    def move_file(self, path: str, folder: str) -> dict[str, str]:
        """Move a file to another folder; neither may be locked.

        Args:
            path: folder/name.
            folder: Where it goes.
        """
        file, name = self._file(path), path.partition("/")[2]
        self._unlocked(path.partition("/")[0])
        self._unlocked(folder)
        moved = f"{folder}/{name}"
        if moved in self.state["files"]:
            raise ToolError(f"there is a file {moved} already")
        del self.state["files"][path]
        self.state["files"][moved] = file
        return {"path": moved}

    @tool
    def replace_text(self, path: str, old: str, new: str) -> str:
        """Replace a piece of a file's text and return the new text.

        Args:
            path: folder/name.
            old: What to replace; must be there exactly once.
            new: What to put in its place.
        """
        file = self._file(path)
        text = str(file["text"])
        self._unlocked(path.partition("/")[0])
        count = text.count(old) if old else 0
        if count != 1:
            raise ToolError(f"{path} has {old!r} {count} times; wanted exactly once, give more of the text around it")
        file["text"] = text.replace(old, new)
        return str(file["text"])

    @tool
    def grant_access(self, folder: str, person: str) -> dict[str, Any]:
        """Give a person access to a folder.

        Args:
            folder: Its name.
            person: First name in small letters.
        """
        access: list[str] = self._folder(folder)["access"]
        self._person(person)
        if person in access:
            raise ToolError(f"{person} has access to {folder} already")
        access.append(person)
        return {"folder": folder, "access": access}

    # ------------------------------------------------------------- back end

    def _ticket(self, id: str) -> Any:
        return self.find("tickets", id)

    def _person(self, id: str) -> Any:
        return self.find("people", id)

    def _folder(self, id: str) -> Any:
        return self.find("folders", id)

    def _file(self, path: str) -> Any:
        return self.find("files", path)

    def _unlocked(self, folder: str) -> None:
        if self._folder(folder)["locked"]:
            raise ToolError(f"folder {folder} is locked; nothing in it can be changed")
