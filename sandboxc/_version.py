"""The versions of this compiler and of its reports, as literals so that reading them costs no metadata look-up."""

VERSION = "0.1.0"

#: ``format_version`` of every JSON object that a command prints or a run records: a minor step only adds keys.
REPORT_FORMAT = "1.0"
