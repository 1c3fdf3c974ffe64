"""A subconscious for AI agents: keywords and source pointers, never content."""

__version__ = "0.1.0"
