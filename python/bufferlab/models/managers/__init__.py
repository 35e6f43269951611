"""The models of buffer managers: one file each, and one line in models/predict.py."""
