"""Tools of agents: the protocol of calls, worlds with state, and the tasks that are played in them."""
