"""The reliability campaign: kills, pairs of sweeps, strange servers, and hostile inputs (docs/reliability.md)."""
