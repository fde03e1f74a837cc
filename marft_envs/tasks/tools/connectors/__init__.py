"""Tools outside of the process: behind an HTTP endpoint, or on an MCP server."""
