"""Questions about facts of several sessions back; the store of memories is a part of the world.

A game tells facts in sessions, one session a round, and then asks for one of them. Nobody sees an earlier round
(`context_rounds=1`), so all that reaches the answer goes through a store with a bounded number of entries. Writing and
reading are turns of agents, paid by the final reward alone. Some facts are contradicted in a later session: the later
value counts.

| Phase | Round | Acts in the trio | Action |
|---|---|---|---|
| 0 | one for each session | writer | lines `add KEY: VALUE`, `update KEY: VALUE`, `delete KEY`, or `keep` |
| 1 | after the last session | query | the words to look up; the entries that share most of them are returned |
| 2 | the last | answerer | an answer that names exactly one of the choices of the question |
| 3 | before the last, with `distil` | answerer | `note: TEXT`, which the last round shows in place of the entries |

In the duo the writer writes and the reader does the rest; in the solo one agent does all. The quartet is the trio with
a distiller, who acts with `distil` alone. In the smaller teams the agent that answers writes the note before.

Sizes are `tiny`, `small`, `medium` and `large`, or the fields of `RecallSize` as a dict. The asked fact was told at
least `distance` sessions before the question. Tasks come in blocks that differ in the values alone, so that the
question tells nothing of the answer: without memory every policy solves exactly 1 of `values` tasks of a split.

`memory` chooses the agents or a fixed policy:

| memory | the store | what is read, and shown |
|---|---|---|
| agents | as the agents write it | the result of the agents' query |
| none | empty | nothing |
| all | every line of every session | all of it |
| last:K | the last K lines | all of it |
| bm25:K | every line of every session | the K lines that BM25 ranks first for the question |

Where a fixed policy does a part, the rounds of that part are left out. `{"write": ..., "read": ...}` fixes one part
alone: `write` is agents, none, all or last:K, `read` is agents, all or bm25:K. The capacity binds agents only.

The third part, `distil`, is none or agents. With agents there is one more round between reading and answering. An agent
is shown the question and what was read, and writes a short note. The answering agent is shown the question and the note
alone. `detail` of the last outcome then says whether the note tells the right value (`distilled`), beside `stored` and
`found`.

Sources: Memory-R1 (arXiv 2508.19828), AgeMem (arXiv 2601.01885).

Version history: v0, first version.
"""

from marft_envs.tasks.recall.facts import SIZES, Fact, RecallSize, RecallTask, draw
from marft_envs.tasks.recall.policies import Memory
from marft_envs.tasks.recall.store import Entry, Store
from marft_envs.tasks.recall.task_set import RecallTasks

__all__ = ["SIZES", "Entry", "Fact", "Memory", "RecallSize", "RecallTask", "RecallTasks", "Store", "draw"]
