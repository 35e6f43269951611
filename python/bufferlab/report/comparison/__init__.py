"""Compares measured or predicted sweeps: `compare` two sides, `history` many sweeps, `accuracy` a prediction with
measured runs."""
