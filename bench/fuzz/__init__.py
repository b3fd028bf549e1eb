"""The fuzzers of admission and of the HTTP parser, and the command line that they share."""
