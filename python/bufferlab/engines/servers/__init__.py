"""The parts that private servers of every family share: builds and fetching, conditions, a limit on memory."""
