"""Emitters: pure functions from layers and target facts to native artefacts and their losses."""
