"""One run: the backend that fills it, its worker process, and the checks that only `execute` can make."""
