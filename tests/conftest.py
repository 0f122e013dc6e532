"""How Hypothesis runs: the same examples every time, without a deadline; and that Ctrl-C means what it says."""

import os
import signal

from hypothesis import HealthCheck, Phase, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=80, suppress_health_check=_SLOW)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20, suppress_health_check=_SLOW)
settings.register_profile("deep", deadline=None, max_examples=2000, suppress_health_check=_SLOW)
settings.register_profile(
    "seeded",
    deadline=None,
    derandomize=True,
    max_examples=150,
    suppress_health_check=_SLOW,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script, and so in all we start
    signal.signal(signal.SIGINT, signal.default_int_handler)
