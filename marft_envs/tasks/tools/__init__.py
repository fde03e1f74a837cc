"""Tools of agents: the call protocol, stateful worlds, and the tasks played in them."""
