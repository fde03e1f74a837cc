"""Records of episodes: replay, files, OpenTelemetry spans."""
