"""One sweep on the nodes of a Ray cluster: each block of the plan is a task, and nodes send its runs to this host."""
