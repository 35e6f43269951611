"""Compares sides, measured or predicted: `compare` two, `history` many, `accuracy` a prediction with its runs."""
