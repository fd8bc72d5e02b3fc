"""The version of this compiler, as a literal so that reading it costs no metadata look-up."""

VERSION = "0.1.0"
