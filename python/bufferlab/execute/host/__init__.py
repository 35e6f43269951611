"""The host of a sweep: its fingerprint, directories, locks and noise, and host settings that must be restored."""
