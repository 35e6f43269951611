"""The reliability campaign: kills, pairs of sweeps on one server, and hostile inputs (docs/reliability.md)."""
