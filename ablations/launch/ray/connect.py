"""The way to a Ray cluster: one that is there, or one of this machine's own."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import subprocess
import sys
from typing import Any

from model.config import ConfigError

_KNOCK = 10.0  # seconds until nobody is at an address
_ANSWER = 30.0  # seconds until a cluster has not refused a stranger


def load_ray(address: str | None) -> Any:
    """Ray itself, told before it is loaded where its cluster is to be on loopback.

    Else it takes 127.0.0.1 for whatever others call this machine: a cluster of this machine's own
    would be open to them, and one that is on loopback would never be found.
    """
    if address is None or is_loopback(address.rpartition(":")[0]):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        fix = "pip install -e '.[ray]'"
        raise ConfigError([f"--on ray needs Ray, which is not installed: {fix}"]) from None
    return ray


def connect(ray: Any, address: str | None, capacity: int | None) -> None:
    """Join a cluster or start one; Ray takes SIGTERM for itself, so that is given back."""
    before = signal.getsignal(signal.SIGTERM)
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    if address is None:
        place = {"address": "local", "num_cpus": capacity, "_node_ip_address": "127.0.0.1"}
    else:
        _knock(address)
        place = {"address": address}
        del quiet["include_dashboard"]
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no warning of the future
    try:
        ray.init(**place, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _unanswered(address or "a cluster on this machine", error) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _knock(address: str) -> None:
    """ConfigError at once where nobody is there: Ray itself would try for ten minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:  # Ray has other words for an address, such as auto
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK).close()
    except (OSError, OverflowError) as error:
        raise _unanswered(address, error) from None


def _unanswered(where: str, error: Exception) -> ConfigError:
    return ConfigError([f"--on ray: {where} does not answer ({first_line(error)})"])


def first_line(error: Exception) -> str:
    """What went wrong, for people."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def refuse_strangers(ray: Any) -> None:
    """ConfigError where other machines can reach the cluster and it asks nobody for a token: it
    runs whatever code it is sent."""
    nodes = [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
    outside = sorted({address for address in nodes if not is_loopback(address)})
    if outside and accepts_without_token(ray.get_runtime_context().gcs_address):
        raise ConfigError(
            [
                f"--on ray: machines beside this one can reach the cluster ({outside[0]}), and it "
                "runs whatever it is sent by anyone. Start it with RAY_AUTH_MODE=token, or say "
                "--trust-cluster where its network is closed"
            ]
        )


def accepts_without_token(address: str) -> bool:
    """Whether a process without a token is answered: only a refusal that asks for one shows that it
    is not."""
    ask = "import sys; from ray._raylet import GcsClient as G"
    ask += "; G(address=sys.argv[1]).get_all_node_info(timeout=10)"
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env |= {"RAY_AUTH_MODE": "disabled", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    words = [sys.executable, "-c", ask, address]
    try:
        asked = subprocess.run(words, env=env, capture_output=True, timeout=_ANSWER)
    except subprocess.TimeoutExpired:
        return True
    told = asked.stderr.lower()
    return asked.returncode == 0 or not (b"authentic" in told or b"token" in told)


def is_loopback(address: str) -> bool:
    """Whether this names the machine as only its own processes do."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:  # a name
        return address == "localhost"
