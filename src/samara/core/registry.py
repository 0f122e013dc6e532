"""Registry: all source types together. It says who owns an object, and which sources a change concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from samara.core.metadata_keys import ACCEPT
from samara.core.model import NAMESPACE, Key, Kind, Object, Ref, namespace_ref
from samara.core.ownership import is_adopted, is_recorded
from samara.core.policy import consented_names
from samara.core.source_type import Annotated, ChosenLabels, CustomResource, SourceType
from samara.core.trust import ChosenLabel, Trust
from samara.core.view import NamespaceView, View


@dataclass(frozen=True)
class Registry:
    """Every source type, in order of rank, also the disabled ones: they still recognise their copies."""

    source_types: tuple[SourceType, ...]
    keys_of_others: frozenset[str] = frozenset()
    """Keys that only other controllers read. They are not reported as misspelt."""

    @cached_property
    def _by_name(self) -> Mapping[str, SourceType]:
        return {source_type.name: source_type for source_type in self.source_types}

    def __getitem__(self, name: str) -> SourceType:
        return self._by_name[name]

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        order = list(dict.fromkeys(source_type.vocabulary for source_type in self.source_types))
        return {source_type.name: order.index(source_type.vocabulary) for source_type in self.source_types}

    def rank(self, name: str) -> int:
        """The position of the vocabulary. If two vocabularies want one address, the lower rank gets it."""
        return self._ranks[name]

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(
            dict.fromkeys((NAMESPACE, *(kind for source_type in self.source_types for kind in source_type.kinds)))
        )

    @cached_property
    def managers(self) -> frozenset[str]:
        return frozenset().union(*(source_type.ownership.managers for source_type in self.source_types))

    @cached_property
    def metadata_keys(self) -> frozenset[str]:
        """The label and annotation keys of all vocabularies: never copied, and objects that have one are parsed."""
        return frozenset().union(
            *(source_type.ownership.marks | source_type.source.metadata_keys for source_type in self.source_types)
        )

    @cached_property
    def always_cached(self) -> frozenset[Kind]:
        """The kinds of which every object is kept, whatever its labels and annotations."""
        return frozenset({NAMESPACE, *self.resources})

    @cached_property
    def resources(self) -> tuple[Kind, ...]:
        """The custom resources whose objects are sources."""
        return tuple(
            dict.fromkeys(kind for source_type in self.source_types if (kind := source_type.resource) is not None)
        )

    def owner(self, obj: Object, view: View) -> Key | None:
        """The source that this object names. Of several claims, a proven one wins, then the lower rank."""
        claims = self._claims(obj, view)
        return claims[0] if claims else None

    def _claims(self, obj: Object, view: View) -> list[Key]:
        """Every source that this object names. Most objects have no mark, so only the types of its marks are asked."""
        claims: list[Key] = []
        for position in sorted(self._positions(obj)):
            source_type = self.source_types[position]
            source = source_type.ownership.source_of(obj, view)
            if source is not None:
                claims.append(Key(source_type.name, source))
        if len(claims) > 1:  # any client can add a second mark to a copy, which must not take it from its source
            claims.sort(key=lambda key: not is_recorded(obj, self[key.source_type].ownership))
        return claims

    def _positions(self, obj: Object) -> set[int]:
        """The positions in `source_types` of the types of which an object may be a copy."""
        positions = {position for key in (*obj.labels, *obj.annotations) for position in self._by_mark.get(key, ())}
        return positions | self._by_owner_reference if obj.owner_references else positions

    @cached_property
    def _by_mark(self) -> Mapping[str, tuple[int, ...]]:
        """By mark: the positions in `source_types` of the types that have it."""
        positions: dict[str, tuple[int, ...]] = {}
        for position, source_type in enumerate(self.source_types):
            for key in source_type.ownership.marks:
                positions[key] = (*positions.get(key, ()), position)
        return positions

    @cached_property
    def _by_owner_reference(self) -> frozenset[int]:
        return frozenset(
            position for position, source_type in enumerate(self.source_types) if not source_type.ownership.transferable
        )

    def is_copy(self, obj: Object, view: View) -> bool:
        """True for a copy that stays ours when its marks are removed. An adopted object may be taken back."""
        if is_adopted(obj):
            return False
        owner = None if obj.known_copy else self.owner(obj, view)
        return obj.known_copy if owner is None else self[owner.source_type].ownership.is_remembered(obj)

    def sources(self, obj: Object, view: View) -> Iterator[Key]:
        """The keys for which this object is a source. A copy is a source only within its own vocabulary: a chain."""
        for key, owner in self._requests(obj, view):
            if owner is None or not self.is_believed(obj, owner, view):
                yield key

    def possible_sources(self, obj: Object, view: View) -> Iterator[Key]:
        """The same, and the keys of an object whose marks are not proven. Those are sources or copies, which depends on
        the source that the marks name, and may change with it."""
        for key, owner in self._requests(obj, view):
            if owner is None or not self[owner.source_type].ownership.is_proven(obj):
                yield key

    def is_mere_copy(self, obj: Object, source_type: SourceType, view: View) -> bool:
        """True for a copy that cannot be a source of this type, whatever labels and annotations it has."""
        marked = (self.source_types[position].name for position in self._positions(obj))
        if all(self._is_chain(name, source_type) for name in marked):  # the common case, and cheaper than the claims
            return False
        owner = self._first_owner(self._claims(obj, view))
        return (
            owner is not None
            and not self._is_chain(owner.source_type, source_type)
            and self.is_believed(obj, owner, view)
        )

    def is_only_a_copy(self, obj: Object, view: View) -> bool:
        """True for a copy that requests no copies itself, or may not do so."""
        owner = self.owner(obj, view)
        return owner is not None and self.is_believed(obj, owner, view) and next(self.sources(obj, view), None) is None

    def false_claims(self, obj: Object, view: View) -> tuple[Key, ...]:
        """The sources that the marks of an object name although it is not their copy but itself a source."""
        owners = dict.fromkeys(owner for _, owner in self._requests(obj, view) if owner is not None)
        return tuple(owner for owner in owners if not self.is_believed(obj, owner, view))

    def is_believed(self, obj: Object, owner: Key, view: View) -> bool:
        """True if an object is a copy of the source that its marks name. Any client can write marks on an object.

        Either managedFields prove them, or the source wants a copy there.
        """
        source_type = self[owner.source_type]
        if source_type.ownership.is_proven(obj):
            return True
        if owner not in view.claimants(obj.ref):
            return False
        copies = source_type.desired(owner.source, NamespaceView(view, obj.ref.namespace)).copies
        return any(copy.ref == obj.ref for copy in copies)

    def _requests(self, obj: Object, view: View) -> Iterator[tuple[Key, Key | None]]:
        """The keys for which this object requests copies, each with the source whose copies may not do so, or None.

        A proven claim comes first. A copy may be a source in a chain of its own vocabulary.
        """
        candidates = self._by_kind_of_source.get(obj.ref.kind, ())
        matching = [source_type for source_type in candidates if source_type.is_source(obj, view)]
        claims = self._claims(obj, view) if matching else ()
        owner = self._first_owner(claims)
        for source_type in matching:
            is_chained = owner is not None and self._is_chain(owner.source_type, source_type)
            yield Key(source_type.name, obj.ref), None if is_chained else owner

    @cached_property
    def _by_kind_of_source(self) -> Mapping[Kind, tuple[SourceType, ...]]:
        """By kind: the enabled source types that may have sources of it. Most kinds have few of them."""
        kinds: dict[Kind, tuple[SourceType, ...]] = {}
        for source_type in self.source_types:
            source = source_type.source
            for kind in (source.kind,) if isinstance(source, CustomResource) else source_type.kinds:
                if source_type.enabled:
                    kinds[kind] = (*kinds.get(kind, ()), source_type)
        return kinds

    def _first_owner(self, claims: Iterable[Key]) -> Key | None:
        """The first of these sources whose copies may not be sources of other vocabularies."""
        return next((key for key in claims if not self[key.source_type].ownership.copies_may_be_sources), None)

    def _is_chain(self, owner: str, source_type: SourceType) -> bool:
        """True if copies of a source of the type `owner` may be sources of this type."""
        if owner == source_type.name:
            return source_type.hierarchy is not None
        return self[owner].vocabulary == source_type.vocabulary

    def fill(self, obj: Object, view: View) -> Key | None:
        """The key of an object that asks to be filled. Such an object is no copy of any source."""
        for source_type in self._fills:
            key = Key(source_type.name, obj.ref)
            if source_type.is_source(obj, view) and key in self.sources(obj, view):
                return key
        return None

    @cached_property
    def _fills(self) -> tuple[SourceType, ...]:
        return tuple(source_type for source_type in self.source_types if source_type.is_fill)

    def keeper(self, obj: Object, view: View) -> Key | None:
        """The source that restores this object if another client edits it: the one that it names, or itself."""
        return self.owner(obj, view) or self.fill(obj, view)

    def pull_key(self, obj: Object) -> str:
        """The annotation by which an object requests its own content, or an empty text."""
        return min(self._pull_keys.intersection(obj.annotations), default="")

    @cached_property
    def _pull_keys(self) -> frozenset[str]:
        sources = (source_type.source for source_type in self.source_types)
        return frozenset().union(*(source.pull_keys for source in sources if isinstance(source, Annotated)))

    def keys_to_reconcile(self, obj: Object, view: View) -> Iterator[Key]:
        """Every key to reconcile when this object changes."""
        yield from self.possible_sources(obj, view)
        owner = self.owner(obj, view)
        if owner is not None:
            yield self.part(owner, obj.ref.namespace)
        for claim in view.claimants(obj.ref):
            if claim.source != obj.ref:
                yield self.part(claim, obj.ref.namespace)
        yield from view.readers(obj.ref)
        yield from self._affected(obj, view)

    def inputs(self, key: Key, source: Object) -> Iterator[Ref]:
        """The addresses of the objects from which a source's desired state is made, besides the source itself."""
        source_type = self[key.source_type]
        yield from (ref for ref in source_type.source.inputs(source) if ref != source.ref)

    def next_hop(self, obj: Object, view: View) -> Iterator[Key]:
        """The keys to reconcile after Samara wrote this object: the next hop of a chain."""
        yield from self.sources(obj, view)
        yield from view.readers(obj.ref)
        yield from self._affected(obj, view)

    def _affected(self, obj: Object, view: View) -> Iterator[Key]:
        for source_type in self.source_types:
            for source in source_type.affected_by(obj, view):
                key = Key(source_type.name, source)
                yield self.part(key, obj.ref.name) if self._may_write_into(obj, key, view) else key

    def _may_write_into(self, obj: Object, key: Key, view: View) -> bool:
        """True for a Namespace in which the source may want a copy. Then only its part there is affected."""
        if obj.ref.kind != NAMESPACE:
            return False
        addresses = self[key.source_type].addresses(key.source, view)
        return addresses is None or not addresses.below or addresses.below in self.parents(obj)

    def part(self, key: Key, namespace: str) -> Key:
        """The part of a key in one namespace, if its source type is split by namespace."""
        return key.in_namespace(namespace) if self[key.source_type].per_namespace else key

    def parents(self, namespace: Object) -> tuple[str, ...]:
        """The namespaces from which this one inherits, one for each `Hierarchy` in which it has a parent."""
        hierarchies = (source_type.hierarchy for source_type in self.source_types if source_type.hierarchy is not None)
        names = (hierarchy.parent(namespace) for hierarchy in hierarchies if hierarchy.parent is not None)
        return tuple(dict.fromkeys(name for name in names if name))

    def above(self, namespace: Object) -> str:
        """The namespace directly above this one in a tree that consents and settings may name. Empty if there is none.

        The trees of a disabled source type count too, so that a change of settings withdraws no consent.
        """
        above = (source_type.hierarchy.above for source_type in self.source_types if source_type.hierarchy is not None)
        return next((name for find in above if find is not None and (name := find(namespace))), "")

    def trees_of(self, name: str, view: View) -> tuple[str, ...]:
        """A namespace and all namespaces above it, from the bottom to the top. Ends where a name repeats."""
        names = [name]
        while (namespace := view.get(namespace_ref(names[-1]))) is not None:
            above = self.above(namespace)
            if not above or above in names:
                break
            names.append(above)
        return tuple(names)

    @cached_property
    def chosen_labels(self) -> tuple[ChosenLabels, ...]:
        """The labels that tenants choose for namespaces, of every tree."""
        hierarchies = (source_type.hierarchy for source_type in self.source_types if source_type.hierarchy is not None)
        return tuple(hierarchy.chosen_labels for hierarchy in hierarchies if hierarchy.chosen_labels is not None)

    def chosen_labels_on(self, namespace: Object, keys: Iterable[str], view: View) -> dict[str, ChosenLabel]:
        """Those of these keys that are labels of a Namespace which tenants chose."""
        keys = tuple(keys)
        return {
            key: ChosenLabel(chosen.setting, trusted)
            for chosen in self.chosen_labels
            for key, trusted in chosen.on(namespace, keys, view).items()
        }

    @cached_property
    def kinds_that_name(self) -> tuple[Kind, ...]:
        """The kinds that must have been listed before it is known whether a name is trusted."""
        naming = (one for one in self.source_types if one.names.trusts is not None and one.enabled)
        return tuple(dict.fromkeys((NAMESPACE, *(kind for source_type in naming for kind in source_type.kinds))))

    def trust_in(self, name: str, view: View, accepting: Iterable[Ref]) -> Iterator[Trust]:
        """What gives something to a namespace of this name because of the name, whether or not there is one, or takes
        something from it.

        `accepting`: the Namespaces whose consent may name it. A disabled source type has no sources, but its settings
        count: its vocabulary may be waiting for the original controller.
        """
        for source_type in self.source_types:
            trusted = source_type.policy.trusted
            if trusted is not None and (item := trusted.naming(name)):
                yield Trust(trusted.setting, "names it", item)
        for trusts in (_consents(name, accepting), self._heirs(name, view), self._lists(name, view)):
            for trust in trusts:
                if isinstance(trust.by, Ref) and trust.holds(view.get(trust.by)):
                    yield trust

    def _heirs(self, name: str, view: View) -> Iterator[Trust]:
        """The Namespaces that would inherit from a namespace of this name, or use it as a template, if it existed."""
        hierarchies = (source_type.hierarchy for source_type in self.source_types if source_type.hierarchy is not None)
        for label in sorted(frozenset().union(*(hierarchy.labels for hierarchy in hierarchies))):
            holds = partial(_inherits_from, label, name)
            for namespace in view.namespaces_with_label(label, name):
                yield Trust(namespace.ref, f"inherits from it ({label})", holds=holds)

    def _lists(self, name: str, view: View) -> Iterator[Trust]:
        """The sources that may list a name."""
        for source_type in self.source_types:
            if source_type.names.trusts is not None and source_type.enabled:
                holds = partial(_names, source_type.names.trusts, name)
                yield from (Trust(ref, "lists it", holds=holds) for ref in view.sources_naming(source_type.name, name))


def _consents(name: str, accepting: Iterable[Ref]) -> Iterator[Trust]:
    """The Namespaces whose consent may name a namespace."""
    return (Trust(ref, f"accepts it ({ACCEPT})", holds=partial(_accepts_from, name)) for ref in accepting)


def _accepts_from(name: str, namespace: Object | None) -> bool:
    return namespace is not None and name in consented_names(namespace.annotations.get(ACCEPT, ""))


def _inherits_from(label: str, name: str, namespace: Object | None) -> bool:
    return namespace is not None and not namespace.deleting and namespace.labels.get(label) == name


def _names(names: Callable[[Object, str], bool], name: str, source: Object | None) -> bool:
    return source is not None and not source.deleting and names(source, name)
