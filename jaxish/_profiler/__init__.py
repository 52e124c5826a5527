"""Profiles: what ran when, by torch's profiler, and what holds memory."""
