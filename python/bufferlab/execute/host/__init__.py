"""The host around a sweep: its fingerprint, directories, locks and noise, and settings that must be restored."""
