"""Serve a trained team: as a model behind the OpenAI API, or as an A2A agent."""
