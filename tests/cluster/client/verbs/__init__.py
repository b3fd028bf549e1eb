"""The verbs on a real cluster, as a user calls them."""
