"""The controllers compared with each other and with a bare client, on the same kind of cluster."""
