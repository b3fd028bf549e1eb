"""The rules about ranks that wait for each other, over recorded states."""
