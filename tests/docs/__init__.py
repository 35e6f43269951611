"""Tests of what the documents and the settings say."""
