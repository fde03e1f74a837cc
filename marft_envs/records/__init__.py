"""Records of turns and episodes: replay, files, OpenTelemetry spans."""
