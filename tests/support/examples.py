"""The objects in `examples/<vocabulary>`, as worlds, so that tests use a vocabulary without naming it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import yaml
from tests.support.pages import EXAMPLES
from tests.support.settle import RULES, settle
from tests.support.world import World, content

from samara.assembly import WELL_KNOWN, kinds_in, registry_of
from samara.core.kinds import rules_for
from samara.core.model import NAMESPACE, Content, Kind, KindName, Ref, namespace_ref
from samara.core.queries import Query, SecretPath, SecretReading
from samara.core.registry import Registry
from samara.core.source_type import Annotated
from samara.kube.discovery import guess
from samara.settings import Settings, load
from samara.vocabularies import VOCABULARIES

ADDRESS = ("apiVersion", "kind", "metadata")


class Example(NamedTuple):
    """One object of an example."""

    ref: Ref
    content: Content
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    def put(self, world: World) -> None:
        labels, annotations = dict(self.labels), dict(self.annotations)
        world.put(self.ref, self.content, labels=labels, annotations=annotations, generation=1)

    @property
    def is_namespace(self) -> bool:
        return self.ref.kind == NAMESPACE


class Outside(dict[Query, object]):
    """A secret manager that has a value at every path."""

    def get(self, key: Query, default: object = None) -> object:
        reading = SecretReading(b"value", "2026-11-15T10:00:00Z")
        return super().get(key, reading if isinstance(key, SecretPath) else default)


@cache
def settings_of(vocabulary: str) -> Settings:
    file = EXAMPLES / vocabulary / "settings.yaml"
    return load(str(file)) if file.exists() else Settings()


@cache
def registry_for(vocabulary: str) -> Registry:
    settings = settings_of(vocabulary)
    return registry_of(settings, {**{name: guess(name) for name in kinds_in(settings)}, **WELL_KNOWN})


@cache
def examples(vocabulary: str) -> tuple[Example, ...]:
    """Every object once in its stored form, namespaces first."""
    folder, kinds = EXAMPLES / vocabulary, {str(kind): kind for kind in registry_for(vocabulary).kinds}
    assert folder.is_dir(), f"a vocabulary needs manifests in {folder}: the contract tests settle them"
    files = [path for path in sorted(folder.glob("*.yaml")) if path.name != "settings.yaml"]
    documents = [document for path in files for document in yaml.safe_load_all(path.read_text()) if document]
    by_ref = {example.ref: example for example in (_example(document, kinds) for document in documents)}
    return tuple(sorted(by_ref.values(), key=lambda example: not example.is_namespace))


def _example(document: dict[str, Any], kinds: Mapping[str, Kind]) -> Example:
    metadata = document["metadata"]
    fields: Mapping[str, object] = {
        key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")
    }
    group, _, version = document["apiVersion"].rpartition("/")
    name = KindName(group, version, document["kind"])
    kind = kinds.get(str(name)) or guess(name)
    canonical = rules_for(kind).canonical
    fields = (canonical(fields) if canonical is not None else None) or fields
    namespace = metadata.get("namespace", "default") if kind.namespaced else ""
    ref = Ref(kind, namespace, metadata["name"])
    return Example(ref, content(**fields), metadata.get("labels", {}), metadata.get("annotations", {}))


def a_world(registry: Registry) -> World:
    return World(registry, outside=Outside())


def populate(world: World, objects: Iterable[Example]) -> None:
    """Creates every object once its namespace exists, which another object may create first, and settles the world."""
    waiting = list(objects)
    while waiting:
        ready = [example for example in waiting if _has_place(example, world)]
        if not ready:
            world.namespace(waiting[0].ref.namespace)
        for example in ready:
            example.put(world)
            waiting.remove(example)
        settle(world, RULES)


def _has_place(example: Example, world: World) -> bool:
    return not example.ref.namespace or namespace_ref(example.ref.namespace) in world.objects


def namespace_events(vocabulary: str, registry: Registry) -> Iterator[tuple[World, Callable[[World], object]]]:
    """For each namespace of an example: the world before it appears, or before it has its labels, and that event."""
    everything = examples(vocabulary)
    for namespace in [example for example in everything if example.is_namespace]:
        name = namespace.ref.name
        before = a_world(registry)
        populate(
            before, [example for example in everything if example is not namespace and example.ref.namespace != name]
        )
        if namespace.ref not in before.objects:
            yield before, namespace.put
        bare = a_world(registry)
        populate(
            bare,
            [
                example if example is not namespace else Example(example.ref, example.content, {}, {})
                for example in everything
            ],
        )
        if namespace.labels or namespace.annotations:
            yield bare, partial(_dress, namespace)


def _dress(namespace: Example, world: World) -> None:
    """Gives a Namespace its labels and annotations."""
    labels = {**world.objects[namespace.ref].labels, **namespace.labels}
    world.edit(namespace.ref, labels=labels, annotations=dict(namespace.annotations))


class Request(NamedTuple):
    """How one object of an example requests copies, and the marks of its copies. Names are those of the example."""

    vocabulary: str
    ref: Ref
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    marks: tuple[tuple[Mapping[str, str], Mapping[str, str]], ...]
    """By copy: the labels and annotations that name its source."""
    namespaces: tuple[str, ...]
    """All namespaces of the example."""

    def renamed(self, metadata: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
        """The metadata with other names of namespaces and objects in the values."""
        pattern = re.compile(
            "|".join(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])" for name in sorted(names, key=len))
        )
        return {key: pattern.sub(lambda match: names[match[0]], value) for key, value in metadata.items()}


@cache
def requests() -> tuple[Request, ...]:
    """Every annotated object of an example that is a source."""
    return tuple(request for vocabulary in VOCABULARIES for request in _requests(vocabulary.name))


def _requests(vocabulary: str) -> Iterator[Request]:
    registry, everything = registry_for(vocabulary), examples(vocabulary)
    world = a_world(registry)
    populate(world, everything)
    namespaces = tuple(example.ref.name for example in everything if example.is_namespace)
    for example in [example for example in everything if not example.is_namespace]:
        obj = world.objects[example.ref]
        for source_type in [
            source_type for source_type in registry.source_types if isinstance(source_type.source, Annotated)
        ]:
            if source_type.is_source(obj, world):
                keys, marks = source_type.source.metadata_keys, source_type.ownership.marks
                copies = source_type.desired(obj.ref, world).copies
                templates = {id(copy.template): copy.template for copy in copies}.values()
                marked = tuple(
                    (_only(marks, template.labels), _only(marks, template.annotations)) for template in templates
                )
                labels, annotations = _only(keys, obj.labels), _only(keys, obj.annotations)
                yield Request(vocabulary, obj.ref, labels, annotations, marked, namespaces)


def _only(keys: frozenset[str], metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key in keys}
