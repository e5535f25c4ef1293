"""Settings of the unit tests."""

from hypothesis import settings

# How long an example takes tells of the load of the machine.
settings.register_profile("ncubble", deadline=None)
settings.load_profile("ncubble")
