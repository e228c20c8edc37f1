"""How branches and loops are said in JAX."""
