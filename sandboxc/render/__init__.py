"""Renderers: from reports to texts."""
