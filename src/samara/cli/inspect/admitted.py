"""What our own webhooks would change in a new object, where the cluster has them: then it is not ours to write."""

from __future__ import annotations

from dataclasses import replace

from samara.admission.webhooks import LABEL, MUTATING
from samara.core.admission import PatchOperation, Request
from samara.core.model import Object
from samara.core.registry import Registry
from samara.kube.client import Client, collection
from samara.kube.codec import decode
from samara.kube.errors import Forbidden, NotFound

_FINALIZERS = "/metadata/finalizers"


async def changed_plurals(client: Client) -> frozenset[str]:
    """The plural names that our webhooks of this cluster change; none where they may not be read."""
    try:
        raw = await client.get(collection(MUTATING), {"labelSelector": "=".join(LABEL)})
    except (Forbidden, NotFound):
        return frozenset()
    hooks = [hook for each in decode(raw).get("items") or () for hook in each.get("webhooks") or ()]
    rules = [rule for hook in hooks for rule in hook.get("rules") or ()]
    return frozenset(plural for rule in rules for plural in rule.get("resources") or ())


def admitted(obj: Object, registry: Registry, plurals: frozenset[str]) -> Object:
    """A new object as admission would let it in. The only thing that we add to one is a finalizer."""
    for edit in _edits(obj, registry) if obj.ref.kind.plural in plurals else ():
        if edit.path == _FINALIZERS and isinstance(edit.value, list):
            obj = replace(obj, finalizers=tuple(edit.value))
    return obj


def _edits(obj: Object, registry: Registry) -> list[PatchOperation]:
    admissions = [each.admission for each in registry.source_types if each.admission is not None]
    defaults = [each.default for each in admissions if each.default is not None and obj.ref.kind in each.kinds]
    return [edit for default in defaults for edit in default(Request("CREATE", obj, None))]
