"""The network part of a rule set: TCP and UDP rights, ports, and what they and the companion cannot hold."""

from collections.abc import Iterable

from sandboxc import landlock_abi
from sandboxc.capability import Table
from sandboxc.emitters.landlock.capability import AT_NETWORK
from sandboxc.losses import Loss
from sandboxc.policy import ALLOW_ALL, DENY, LOOPBACK, Network
from sandboxc.records import NamedTuple


class NetworkPart(NamedTuple):
    """The handled network rights, the ports with their rights, and whether ports are open by a waiver."""

    handled: int
    ports: tuple[tuple[int, int], ...]
    opened: bool


def network_part(network: Network, abi: int, waived: frozenset[str]) -> NetworkPart:
    """Return the network part; ``waived`` are the places where open ports are accepted."""
    if network.mode == ALLOW_ALL:
        return NetworkPart(0, (), False)
    handled = landlock_abi.handled_net(abi)
    opened = network.mode == LOOPBACK and bool(network.ports) and AT_NETWORK in waived
    connect = landlock_abi.NET_BITS["connect_tcp"] & handled
    if not opened or not connect:
        return NetworkPart(handled, (), False)
    return NetworkPart(handled, tuple((port, connect) for port in sorted(set(network.ports))), True)


def network_losses(network: Network, table: Table, opened: bool) -> Iterable[Loss]:
    """Yield what the target does not hold of a network mode; ``opened`` says whether ports are open by a waiver."""
    found: list[Loss | None] = []
    if network.mode == DENY:
        found.append(table.loss("network-deny", AT_NETWORK, span=network.span))
    elif network.mode == LOOPBACK:
        found.append(table.loss("network-loopback", AT_NETWORK, span=network.span))
        found.append(table.loss("network-deny", AT_NETWORK, span=network.span))
        if opened:
            found.append(table.loss("network-ports", AT_NETWORK, span=network.span))
        elif network.ports:
            ports = ", ".join(map(str, sorted(set(network.ports))))
            message = f"the host ports {ports} cannot be reached: a port rule would open them at every address"
            found.append(table.loss("network-loopback", AT_NETWORK, message, network.span))
    yield from (loss for loss in found if loss is not None)
