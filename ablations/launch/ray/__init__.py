"""Jobs on a Ray cluster: the launcher, what travels with a job, and what its worker does."""
