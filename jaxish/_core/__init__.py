"""Floor 1: what everything else stands on. See docs/architecture.md for the order of these modules."""
