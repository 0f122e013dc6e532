"""All that is known of one kind: what matters in full, and of the rest a trace."""

from __future__ import annotations

from dataclasses import dataclass, field

from samara.core.model import Object, Ref


@dataclass(slots=True)
class Store:
    """All that is known of one kind."""

    objects: dict[Ref, Object] = field(default_factory=dict)
    traces: set[int] = field(default_factory=set)
    """Hashes of the addresses of objects that are not held."""
    tombs: dict[Ref, str] = field(default_factory=dict)
    """The uids of what we deleted, until the watch has said so too."""
    version: int = 0
    listed: bool = False
    unservable: bool = False
    """True while the server does not know the kind, or will not let us list it."""
    suspect: bool = False
    """True where something is there that the list did not name: it is to be listed anew."""
    doubted_until: float = 0.0
    """Until then, by the loop's clock, it proves nothing that an object is missing."""


def trace(ref: Ref) -> int:
    return hash((ref.namespace, ref.name))
