"""Old import paths: `marft_envs.trace` is `marft_envs.records.episode` now."""

# old module -> the modules that hold its names now; submodules of an old package follow it
MOVED: dict[str, tuple[str, ...]] = {
    "action_record": ("tasks.tools.action_record",),
    "drawing": ("dependency.drawing",),
    "factory": ("registration.factory", "registration.builtin"),
    "fixed": ("dependency.fixed",),
    "handoff": ("tasks.tools.handoff",),
    "live_game": ("rollout.running_game",),
    "plan": ("dependency.base", "dependency.ordering"),
    "problem": ("tasks.code.problem",),
    "profile": ("teams.profile",),
    "registry": ("registration.registry", "registration.plugins"),
    "routing": ("dependency.routed",),
    "session": ("tasks.base",),
    "spans": ("records.opentelemetry",),
    "task": ("tasks.base",),
    "tasks.program": ("tasks.code.program",),
    "team": ("teams.team", "teams.profile"),
    "tools": ("tasks.tools",),
    "tools.binding": ("tasks.tools.team_tools",),
    "trace": ("records.episode", "records.turn", "records.replay"),
    "trace_files": ("records.files",),
    "vector": ("rollout.vector_games", "rollout.running_game"),
    "view": ("game.observation", "game.render", "game.state"),
    "worlds": ("tasks.worlds",),
}
