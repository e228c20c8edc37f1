"""A model as text: one screen of what it is, all of it, or one node."""
