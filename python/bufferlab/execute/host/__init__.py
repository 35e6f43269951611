"""The host around a sweep: its fingerprint, directories, locks and noise, and what must be put back."""
