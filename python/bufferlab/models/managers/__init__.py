"""The models of buffer managers. Each has a file here, and a line in models/predict.py."""
