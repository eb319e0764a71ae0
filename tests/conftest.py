"""Property tests try the same examples every time; `--hypothesis-profile=wander` tries others."""

from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("wander", database=None, deadline=None)
settings.load_profile("same")
