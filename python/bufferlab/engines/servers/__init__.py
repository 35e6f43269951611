"""What private servers of every family share: builds, how they are fetched, conditions, a bound on memory."""
