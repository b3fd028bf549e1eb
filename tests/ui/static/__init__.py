"""The page's scripts as text: their types and their translations."""
