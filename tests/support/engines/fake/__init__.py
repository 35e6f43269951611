"""A scripted engine for tests: it takes the whole path from TOML to report in under a second, failures included."""
