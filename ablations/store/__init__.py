"""Records, plans and results folders: the only part of `ablations` that `analysis` imports."""
