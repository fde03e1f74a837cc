"""Attribution of a team's success: Shapley and leave-one-out values of agents, influence of messages, by replay."""
