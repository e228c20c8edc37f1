"""How much of a loop is kept for its way back, as the user chooses."""
