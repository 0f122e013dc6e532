"""Handles the result of a write: updates the counts of its source, its retry state and its Events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from samara import log
from samara.core.copy_counts import CopyCounts
from samara.core.model import NAMESPACE, Key, Ref, namespace_ref
from samara.core.registry import Registry
from samara.core.writes import Apply, Create, Recreate, Removal, SetFinalizer, Update, Write, WriteStatus, verb
from samara.engine.events import EventRecorder
from samara.engine.limits import DriftLimiter, FlapDamper
from samara.engine.metrics import Metrics
from samara.engine.process import utc_timestamp
from samara.engine.retry import REPORT_AFTER, RetryBackoff, RetryState
from samara.engine.writer import Ending, Result, WriteDone
from samara.kube.cache import Cache


class FollowUp(NamedTuple):
    """What the controller does after a result."""

    requeue: Sequence[tuple[Key, float]] = ()
    """Keys to plan again, and after how many seconds."""
    refetch: tuple[Ref, Key, float] | None = None
    """An object in an unknown state. It is read after this many seconds, and then its key is planned again."""


@dataclass(frozen=True, slots=True)
class ResultHandler:
    """Called by the controller with each result. A result changes the state of its own address only."""

    cache: Cache
    registry: Registry
    all_counts: Mapping[Key, CopyCounts]
    retry: RetryBackoff
    drift: DriftLimiter
    flaps: FlapDamper
    events: EventRecorder
    metrics: Metrics

    def handle(self, done: WriteDone) -> FollowUp:
        write, result = done.write, done.result
        if result.already_right:
            return _plan_now(self._found_right(write))
        vocabulary = self.registry[write.key.source_type].vocabulary
        self.metrics.count_write(vocabulary, verb(write), result.ending.value, done.seconds)
        if result.ending is Ending.DONE:
            return _plan_now(self._succeeded(write))
        return self._failed(write, result)

    def _succeeded(self, write: Write) -> list[Key]:
        """Returns the keys to plan now."""
        counts = self.all_counts.get(write.key)
        if isinstance(write, Removal):
            keys = self._removed(write, counts)
        else:
            self.flaps.reset(write.ref)
            self._mark_in_sync(write, counts, written=True)
            keys = self._waiting_for(write)
        self.retry.forget(write.key, write.ref)
        editor = self.drift.record_repair(write)
        if editor is not None:
            self.events.report_reverted(write, editor)
        report = log.info if isinstance(write, Apply | SetFinalizer) else log.debug  # Events report copies
        details = {"finalizer": write.finalizer, "added": write.add} if isinstance(write, SetFinalizer) else {}
        report("wrote", verb=verb(write), to=write.ref, key=write.key, **details)
        self.events.report_write(write)
        return keys

    def _found_right(self, write: Write) -> list[Key]:
        """A dry run showed that the stored copy is right. It counts as in sync, but nothing was written."""
        self._mark_in_sync(write, self.all_counts.get(write.key), written=False)
        self.retry.forget(write.key, write.ref)
        return self._waiting_for(write)

    def _waiting_for(self, write: Write) -> list[Key]:
        """The key of a write, if its next write waited for this one."""
        return [write.key] if isinstance(write, SetFinalizer) or self._is_moved(write) else []

    @staticmethod
    def _mark_in_sync(write: Write, counts: CopyCounts | None, *, written: bool) -> None:
        if counts is None:
            return
        counts.mark_in_sync(write.ref)
        if written and isinstance(write, Create | Update | Recreate):
            counts.mark_written(utc_timestamp())

    def _is_moved(self, write: Write) -> bool:
        """True if a source that wants one copy has it at its new address, and still another at an old one."""
        is_copy = isinstance(write, Create | Update | Recreate)
        return is_copy and not self.registry[write.key.source_type].per_namespace and self.cache.count(write.key) > 1

    def _removed(self, write: Removal, counts: CopyCounts | None) -> list[Key]:
        """Returns the keys to plan now."""
        keys = []
        self.flaps.record_removal(write.ref, self.cache.get(write.key.source))
        if counts is not None:
            counts.removals.pop(write.ref, None)
            if write.ref in counts.not_in_sync.get(write.ref.namespace, ()):
                keys.append(slice_of(write))  # still wanted there, but refused: report that
        if self._is_last_gone(write.key):
            keys.append(write.key)  # one more plan removes the finalizer, or forgets the key
        return keys

    def _is_last_gone(self, key: Key) -> bool:
        """True if the last copy is gone. If the source is being deleted, a copy held by finalizers counts as gone."""
        source = self.cache.get(key.source)
        if source is None:
            return not self.cache.count(key)
        return source.deleting and not self.registry[key.source_type].per_namespace

    def _failed(self, write: Write, result: Result) -> FollowUp:
        delay = self.retry.note(write, result)
        state = self.retry.state_of(write)
        if state is not None and state.is_reported:
            self._report_refusal(write, state)
        if self._is_namespace_gone(write):
            self.retry.forget(write.key, write.ref)  # no later plan may cover this address and end the backoff
        log.debug("write.again", verb=verb(write), to=write.ref, outcome=result.ending.value, fault=result.message)
        if result.known_state:
            return FollowUp([(slice_of(write), delay)])
        return FollowUp(refetch=(write.ref, slice_of(write), delay))

    def _is_namespace_gone(self, write: Write) -> bool:
        if write.ref.kind == NAMESPACE:
            return not isinstance(write, Create) and self.cache.get(write.ref) is None
        return bool(write.ref.namespace) and self.cache.get(namespace_ref(write.ref.namespace)) is None

    def _report_refusal(self, write: Write, state: RetryState) -> None:
        report = log.debug if state.faults > REPORT_AFTER else log.warning  # warn once; further retries log at debug
        report("write.refused", verb=verb(write), to=write.ref, key=write.key, fault=state.message)
        counts = self.all_counts.get(write.key)
        if isinstance(write, Apply | SetFinalizer | WriteStatus):
            self.events.report_blocked(write, "Refused", state.message)
        elif counts is not None:
            note_refused(write, counts, state.message)
            self.events.recheck(write.key, counts)


def _plan_now(keys: Sequence[Key]) -> FollowUp:
    return FollowUp([(key, 0.0) for key in keys])


def note_refused(write: Write, counts: CopyCounts, message: str) -> None:
    """Counts the copy of a refused write as blocked, or as not removed."""
    if isinstance(write, Removal):
        counts.mark_not_removed(write.ref, "refused", message)
    elif not isinstance(write, WriteStatus):  # a status write concerns no copy
        counts.mark_blocked(write.ref, "refused", message)


def slice_of(write: Write) -> Key:
    """The slice of a key that a write belongs to. A write on the source itself concerns the whole key."""
    is_source = write.ref == write.key.source
    return write.key.in_namespace(write.ref.namespace) if write.ref.namespace and not is_source else write.key
