"""One sweep on the nodes of a Ray cluster: a task for each block of the plan, and the runs that it sends home."""
