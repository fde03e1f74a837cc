"""Old import paths: `baselines.command` is `baselines.cli.main` now."""

# old module -> the module that holds its names now
MOVED: dict[str, tuple[str, ...]] = {
    "agreement": ("cli.label_agreement",),
    "command": ("cli.main",),
    "config": ("cli.config_file",),
    "curve": ("report.learning_curve",),
    "environment": ("cli.environment_flags",),
    "evaluate": ("cli.evaluate",),
    "experiment": ("experiment_settings",),
    "flags": ("cli.settings_flags",),
    "inspection": ("cli.inspection",),
    "judge_agreement": ("cli.judge_agreement",),
    "pages": ("environment_pages",),
    "play": ("cli.play",),
    "progress": ("cli.progress",),
    "sampler": ("cli.sampler_flags",),
    "sandbox": ("cli.sandbox",),
    "train": ("cli.train",),
    "validation": ("cli.held_out_validation",),
}
