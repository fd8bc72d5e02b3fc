"""Independent judges of the emitted artefacts: they share no code with the product."""
