"""A fleet for tests: a git server, clusters behind fault proxies, and the engine between them."""
