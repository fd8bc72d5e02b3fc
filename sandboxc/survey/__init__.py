"""Surveying one host (or a described tree): bound layers become sites, one for each place that matters.

The survey asks its questions through a ``Look``; who answers (the host, a JSON tree) is the caller's choice,
so everything in this package stays a pure function of its arguments.
"""

from sandboxc.survey.look import Look, Node, TreeLook
from sandboxc.survey.resolve import Resolved, Site, resolve

__all__ = ["Look", "Node", "Resolved", "Site", "TreeLook", "resolve"]
