"""Nothing but a place: pytest puts this folder on the path, so that tests find `support`."""
