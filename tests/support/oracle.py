"""The laws that every write must satisfy. They use the model and the desired state, and no rule of the core."""

from __future__ import annotations

from tests.support import toys
from tests.support.world import World

from samara.core.desired import UNAVAILABLE, Adopt, Copy, Mode, Template
from samara.core.metadata_keys import ACCEPT, ADOPTED, IGNORE, PAUSED, RELEASED
from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE, Content, Key, ManagedKey, Object, Ref, namespace_ref
from samara.core.ownership import ByOwnerReference
from samara.core.source_type import Protected, SourceType
from samara.core.writes import Apply, Create, Delete, Recreate, Release, SetFinalizer, Update, Write, WriteStatus
from samara.vocabularies import fishysecret
from samara.vocabularies.accurate import labels as trees
from samara.vocabularies.replicator import PULL

GITOPS = (
    "argocd.argoproj.io/",
    "helm.sh/",
    "meta.helm.sh/",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/instance",
)


def assert_lawful(world: World, write: Write) -> None:
    """Asserts every law that concerns a single write and the world it was planned on."""
    source = world.get(write.key.source)
    if isinstance(write, WriteStatus):
        return
    assert source is None or source.annotations.get(PAUSED) != "true", "the source is paused"
    if isinstance(write, SetFinalizer):
        assert write.ref == write.key.source
        return
    assert_namespace_is_writable(world, write.ref)
    if isinstance(write, Create | Update | Recreate):
        assert_copy_is_lawful(world, write)
    elif isinstance(write, Delete | Release):
        assert_removal_is_lawful(world, write)
    else:
        assert isinstance(write, Apply)
        assert_overlay_is_lawful(world, write)


def assert_namespace_is_writable(world: World, ref: Ref) -> None:
    """Nothing is written in a terminating or paused namespace."""
    namespace = world.get(namespace_ref(ref.namespace or ref.name))
    if ref.kind == NAMESPACE and namespace is None:
        return  # a Namespace is in no namespace
    assert namespace is not None
    assert not namespace.deleting
    assert namespace.annotations.get(PAUSED) != "true"


def desired_copy(world: World, write: Write) -> Copy | None:
    """The copy that the source of the write desires at its address, according to its vocabulary alone."""
    want = world.registry[write.key.source_type].desired(write.key.source, world)
    return next((copy for copy in want.copies if copy.ref == write.ref), None)


def namespace_accepts(world: World, write: Write, copy: Copy) -> bool:
    """True unless missing consent or `ignore` closes the namespace to this source."""
    source_type, source = world.registry[write.key.source_type], write.key.source
    if copy.ref.kind == NAMESPACE:
        return True
    namespace = world.objects[namespace_ref(copy.ref.namespace)]
    accepted = [item.strip() for item in namespace.annotations.get(ACCEPT, "").split(",")]
    names = ("*", source.namespace, f"{source.namespace}:{source.kind.name}/{source.name}")
    agreed = source.namespace == copy.ref.namespace or any(
        name in accepted for name in (*names, *_trees(world, source))
    )
    ignored = namespace.annotations.get(IGNORE) == "true" and not copy.by_name
    return (agreed or not source_type.policy.needs_consent) and not ignored


def _trees(world: World, source: Ref) -> set[str]:
    """`tree:<name>` of every namespace that is the source's own or above it by the label of Accurate."""
    above = {
        obj.ref.name: obj.labels.get(trees.PARENT, "") for obj in world.objects.values() if obj.ref.kind == NAMESPACE
    }
    name, known = source.namespace, set[str]()
    while name and f"tree:{name}" not in known:
        known.add(f"tree:{name}")
        name = above.get(name, "")
    return known


def policy_allows(world: World, write: Write, copy: Copy, protected: tuple[str, ...]) -> bool:
    """True if the policy lets the source write there. Protected namespaces here are complete names or `kube-*`."""
    name, reach = copy.ref.namespace or copy.ref.name, world.registry[write.key.source_type].policy.protected
    shut = name in protected or ("kube-*" in protected and name.startswith("kube-"))
    if copy.ref.kind == NAMESPACE:
        return not shut
    return not shut or reach is Protected.ALLOW or (reach is Protected.BY_NAME and copy.by_name)


def assert_copy_is_lawful(world: World, write: Create | Update | Recreate) -> None:
    copy = desired_copy(world, write)
    assert copy is not None, "written where no copy is desired"
    assert namespace_accepts(world, write, copy)
    assert isinstance(write.copy.template.content, Content)
    kind = write.copy.template.content.get("type")
    assert kind is None or kind.raw != b'"kubernetes.io/service-account-token"'
    live = world.objects.get(write.ref)
    assert_copy_is_in_a_child(world, write)
    if isinstance(write, Create):
        assert live is None, "created over an existing object"
        return
    assert live is not None
    holder = world.registry.owner(live, world)
    assert holder == write.key or not is_of_deleted_definition(world, live), "taken from what goes with its definition"
    assert copy.template.mode is Mode.SYNC, "a create-only copy is never updated"
    assert live is write.live
    ours = is_ours(world, write.key, live) or (isinstance(write, Recreate) and may_replace(world, write.key, live))
    assert ours or may_take(world, write.key, copy, live), "the object belongs to another owner"


def assert_copy_is_in_a_child(world: World, write: Create | Update | Recreate) -> None:
    """A copy of `propagate` is in a child of its source namespace and names that namespace."""
    if write.key.source_type != trees.NAME:
        return
    labels = world.objects[namespace_ref(write.ref.namespace)].labels
    assert (labels.get(trees.PARENT) or labels.get(trees.TEMPLATE)) == write.key.source.namespace
    annotations, source = write.copy.template.annotations, world.objects[write.key.source]
    assert annotations[trees.FROM] == source.ref.namespace
    assert annotations[trees.PROPAGATE] == source.annotations[trees.PROPAGATE]


def assert_namespace_may_be_deleted(world: World, write: Delete | Release) -> None:
    """A Namespace is deleted only with its SubNamespace, which has our finalizer, and only without children."""
    source = world.objects[write.key.source]
    assert source.deleting
    assert trees.FINALIZER in source.finalizers
    assert (source.ref.namespace, source.ref.name) == (write.live.labels[trees.PARENT], write.ref.name)
    children = [ref for ref, obj in world.objects.items() if obj.labels.get(trees.PARENT) == write.ref.name]
    cascading = world.registry["sync-to"].policy.needs_consent  # these worlds set both or neither
    assert cascading or not [ref for ref in children if ref.kind == NAMESPACE]


def is_ours(world: World, key: Key, live: Object) -> bool:
    """By an owner reference, by a mark, or because we created it and no owner reference names another source."""
    if live.ref.kind == NAMESPACE:
        return live.labels.get(trees.PARENT) == key.source.namespace
    if owns_by_reference(world.registry[key.source_type]):
        return names(live, world.objects[key.source])
    if world.registry[key.source_type].ownership.source_of(live, world) == key.source:
        return True
    owner = world.registry.owner(live, world)
    if is_pulling(world, live):
        return False
    referred = owner is not None and owns_by_reference(world.registry[owner.source_type])
    made = live.known_copy or is_recorded(world, key, live) or (owner is not None and is_recorded(world, owner, live))
    if owner is None and belongs_to_its_namespace(world, key, live):
        return False
    return made and not referred and not is_orphaned(world, live) and RELEASED not in live.annotations


def is_pulling(world: World, live: Object) -> bool:
    """True for an object that requests its own content, unless Samara made it as a copy of the source that it names."""
    owner = world.registry.owner(live, world)
    return not {PULL, toys.PULL}.isdisjoint(live.annotations) and (
        owner is None or RELEASED in live.annotations or not is_recorded(world, owner, live)
    )


def belongs_to_its_namespace(world: World, key: Key, live: Object) -> bool:
    """For other vocabularies, a copy created once belongs to its namespace if its own vocabulary no longer wants it."""
    propagated = trees.FROM in live.annotations and live.annotations.get(trees.PROPAGATE) != trees.UPDATE
    claiming = {key.source_type, *(claim.source_type for claim in world.claimants(live.ref))}
    seeded = toys.SEEDED in live.annotations
    return (propagated and trees.NAME not in claiming) or (seeded and toys.SEEDS.name not in claiming)


def owns_by_reference(source_type: SourceType) -> bool:
    return isinstance(source_type.ownership, ByOwnerReference)


def is_orphaned(world: World, live: Object) -> bool:
    """True for a copy of a source that owns by reference which has lost its reference."""
    owning = [source_type for source_type in world.registry.source_types if owns_by_reference(source_type)]
    recorded = any(
        proof(live, mark, source_type.ownership.managers)
        for source_type in owning
        for mark in source_type.ownership.marks
    )
    return recorded and world.registry.owner(live, world) is None


def is_recorded(world: World, key: Key, live: Object) -> bool:
    source_type = world.registry[key.source_type]
    proofs = source_type.ownership.proofs or source_type.ownership.marks
    return any(proof(live, mark, source_type.ownership.managers) for mark in proofs)


def may_replace(world: World, key: Key, live: Object) -> bool:
    """True for a copy of ours that has or needs an owner reference and whose source does not come first."""
    holder = world.registry.owner(live, world)
    if holder is None or holder == key or ADOPTED in live.annotations or RELEASED in live.annotations:
        return False
    rank = world.registry.rank
    mine, theirs = world.registry[key.source_type], world.registry[holder.source_type]
    if not (owns_by_reference(mine) or owns_by_reference(theirs)) or not any(
        proof(live, mark, theirs.ownership.managers) for mark in theirs.ownership.marks
    ):
        return False
    source = world.get(holder.source)
    if source is None:
        return rank(mine.name) < rank(theirs.name)
    earlier = (rank(mine.name), world.objects[key.source].created) <= (rank(theirs.name), source.created)
    return earlier and source.annotations.get(PAUSED) != "true"


def is_of_deleted_definition(world: World, live: Object) -> bool:
    """True for a copy of a custom resource that is deleted with its definition: it stays as it is."""
    holder = world.registry.owner(live, world)
    if holder is None or holder.source.kind not in world.revoked:
        return False
    source = world.get(holder.source)
    return (source is None or source.deleting) and is_recorded(world, holder, live)


def is_kept(world: World, key: Key, live: Object) -> bool:
    """True for a copy of ours whose source does not prune and is of no later vocabulary."""
    holder = world.registry.owner(live, world)
    if holder is None or holder == key or world.get(holder.source) is None:
        return False
    theirs = world.registry[holder.source_type]
    is_later = world.registry.rank(holder.source_type) > world.registry.rank(key.source_type)
    stays = not is_later and not theirs.desired(holder.source, world).prune
    return stays and any(proof(live, mark, theirs.ownership.managers) for mark in theirs.ownership.marks)


def names(live: Object, source: Object) -> bool:
    """True if an owner reference has the uid of this source."""
    return source.uid in [owner.uid for owner in live.owner_references]


def may_take(world: World, key: Key, copy: Copy, live: Object) -> bool:
    """True if the settings allow a takeover, or if the object is identical, has no owner and can be adopted.

    A source is never taken over, except by one further up its own tree with `overwrite`.
    """
    if is_pulling(world, live):
        return False
    if world.registry.owner(live, world) is None and not all(
        copy.template.adopt is Adopt.ANY and are_of_one_hierarchy(world, source_key, key)
        for source_key in world.registry.sources(live, world)
    ):
        return False
    tools = any(key.startswith(GITOPS) for key in (*live.labels, *live.annotations))
    identical = has_content_of(copy.template, live) and not live.owner_references and not tools
    return copy.template.adopt is Adopt.ANY or (copy.template.adopt is Adopt.IDENTICAL and identical)


def has_content_of(template: Template, live: Object) -> bool:
    """True if the contents are equal, apart from fields whose live value stays."""
    return template.content in (live.content, live.content.without(*template.unmanaged))


def are_of_one_hierarchy(world: World, one: Key, other: Key) -> bool:
    hierarchy = world.registry[one.source_type].hierarchy
    return one.source_type == other.source_type and hierarchy is not None and hierarchy.parent is not None


def assert_removal_is_lawful(world: World, write: Delete | Release) -> None:
    live, copy = world.objects[write.ref], desired_copy(world, write)
    assert live is write.live
    assert copy is None or not namespace_accepts(world, write, copy) or names_earlier_source(world, write), (
        "deleted where it is desired"
    )
    assert world.registry[write.key.source_type].ownership.source_of(live, world) == write.key.source
    assert is_proven(world, write), "managedFields do not attribute the mark to us"
    assert RELEASED not in live.annotations
    assert not live.deleting
    assert_definition_exists(world, write)
    assert_new_target_exists(world, write)
    assert isinstance(write, Release) == (ADOPTED in live.annotations), (
        "an adopted object is released, and never deleted"
    )
    assert_no_other_source_needs(world, write)
    if write.ref.kind == NAMESPACE:
        assert_namespace_may_be_deleted(world, write)


def assert_definition_exists(world: World, write: Delete | Release) -> None:
    """A source that is deleted with the definition of its kind deletes nothing."""
    source = world.get(write.key.source)
    assert (source is not None and not source.deleting) or write.key.source.kind not in world.revoked


def assert_new_target_exists(world: World, write: Delete | Release) -> None:
    """The Secret at the former target of a FishySecret is deleted only once the new Secret exists."""
    source = world.get(write.key.source)
    if write.key.source_type != fishysecret.NAME or source is None or source.deleting:
        return
    if not namespace_accepts(world, write, Copy(write.ref, Template(UNAVAILABLE), by_name=True)):
        return  # a namespace that withdraws its consent does not wait
    (copy,) = world.registry[write.key.source_type].desired(write.key.source, world).copies
    live, template = world.objects.get(copy.ref), copy.template
    assert copy.ref == write.ref or (live is not None and isinstance(template.content, Content))
    if copy.ref != write.ref and live is not None and isinstance(template.content, Content):
        assert live.content == template.content or world.is_stored_form_of(
            copy.ref.kind, template.content, live.content
        )
        assert template.labels.items() <= live.labels.items()


def names_earlier_source(world: World, write: Delete | Release) -> bool:
    """True if an owner reference names an earlier source of the same name."""
    source = world.get(write.key.source)
    owned = owns_by_reference(world.registry[write.key.source_type])
    return owned and source is not None and not source.deleting and not names(write.live, source)


def is_proven(world: World, write: Delete | Release) -> bool:
    """True if managedFields prove our mark and the garbage collector is not about to delete the copy.

    The parent label of a Namespace counts for any field manager: see `assert_namespace_may_be_deleted`.
    """
    if write.ref.kind == NAMESPACE:
        return True
    source_type, source = world.registry[write.key.source_type], world.get(write.key.source)
    going = owns_by_reference(source_type) and source is not None and source.deleting
    return not going and is_recorded(world, write.key, write.live)


def assert_no_other_source_needs(world: World, write: Delete | Release) -> None:
    """No copy in sync of another source is deleted."""
    for key in world.source_keys():
        source_type = world.registry[key.source_type]
        if key != write.key and source_type.ownership.source_of(write.live, world) == key.source:
            copies = [copy for copy in source_type.desired(key.source, world).copies if copy.ref == write.ref]
            assert not any(copy.template.content == write.live.content for copy in copies), (
                f"{write.key} deletes a copy in sync of {key}"
            )


def proof(live: Object, mark: str, managers: frozenset[str]) -> bool:
    proofs = [ManagedKey(manager, where, mark) for manager in managers for where in (LABELS, ANNOTATIONS)]
    return any(managed_key in live.managed_keys for managed_key in proofs)


def assert_overlay_is_lawful(world: World, write: Apply) -> None:
    live = world.objects[write.ref]
    assert live is write.live
    assert not live.deleting
    relations = {key: live.labels.get(key) for key in trees.ROLES}
    after = {**live.labels, **write.overlay.labels}
    assert {key: after.get(key) for key in trees.ROLES} == relations, (
        "an overlay must not move a namespace within its tree"
    )
    assert not any(key.startswith("samara.dev/") for key in (*write.overlay.labels, *write.overlay.annotations))
