"""Judges other people's files: what their numbers say, against what they are said to mean. Reads no database."""
