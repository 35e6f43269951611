"""A scripted engine for tests: the whole path from TOML to report in under a second, failures included."""
