"""Tests of the documents and of the project's settings."""
