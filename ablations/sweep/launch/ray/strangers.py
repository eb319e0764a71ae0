"""Whether others can give a Ray cluster orders: it runs whatever code it is sent.

Without token authentication, whoever reaches its ports can do anything with its machines.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from typing import Any

from model.config import ConfigError

_SECONDS = 30.0
_STRANGER = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10)
"""
_REFUSED = ("authentic", "token")  # of what it says then


def refuse_strangers(ray: Any) -> None:
    """ConfigError where other machines can reach the cluster and it asks nobody for a token."""
    nodes = [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
    outside = sorted({address for address in nodes if not is_loopback(address)})
    if outside and lets_strangers_in(ray.get_runtime_context().gcs_address):
        raise ConfigError(
            [
                f"--on ray: machines beside this one can reach the cluster ({outside[0]}), and it "
                "runs whatever it is sent by anyone. Start it with RAY_AUTH_MODE=token, or say "
                "--trust-cluster where its network is closed"
            ]
        )


def lets_strangers_in(address: str) -> bool:
    """Whether a process that shows no token is answered, as far as is known: only a refusal that
    asks for one is proof that it is not."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    stranger = [sys.executable, "-c", _STRANGER, address]
    env = own | {"RAY_AUTH_MODE": "disabled", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    try:
        asked = subprocess.run(stranger, env=env, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    told = asked.stderr.decode("utf-8", "replace").lower()
    return asked.returncode == 0 or not any(word in told for word in _REFUSED)


def is_loopback(address: str) -> bool:
    """Whether this names the machine as only its own processes do."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:  # a name
        return address == "localhost"
