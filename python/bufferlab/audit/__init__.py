"""Judges other people's files: compares their numbers with the meaning they are given. Reads no database."""
