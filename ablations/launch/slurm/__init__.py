"""Jobs on a Slurm cluster: the launcher, its profile, what is in flight, and what a job does."""
