"""A trained team as a folder to publish: adapters, team, evaluation and model card, without anything private."""
