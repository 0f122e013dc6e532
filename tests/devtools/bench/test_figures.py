"""The arithmetic of the benchmark."""

import json
import math
from pathlib import Path

import pytest
from tests.support import toys

from samara.vocabularies import VOCABULARIES
from samara_devtools.bench import options, workloads
from samara_devtools.bench.__main__ import Report, write_json
from samara_devtools.bench.audit import Counts, Entry
from samara_devtools.bench.commands import KUBECTL, PLAN, STATUS, WHY, WHY_SOURCE, Commands, fastest
from samara_devtools.bench.controller import stall_in
from samara_devtools.bench.figures import Cpu, WritesOf, delays, fan_out, median, percentile, ratios, trial
from samara_devtools.bench.options import parse
from samara_devtools.bench.procfs import cpu_of, megabytes_of, parent_of
from samara_devtools.bench.table import Row, command_rows, table
from samara_devtools.bench.workloads import workload_of

MEASURED = [vocabulary.name for vocabulary in VOCABULARIES if workload_of(vocabulary.name) is not None]


def wrote(user: str, namespace: str, began: float, ended: float, verb: str = "create") -> Entry:
    return Entry(user, "agent", verb, "secrets", "", namespace, "db", 201, began, ended)


def test_a_fan_out_lasts_from_its_cause_to_its_last_copy() -> None:
    entries = [
        wrote("bench", "admin", 0.5, 1.0),
        wrote("controller", "a", 1.1, 1.5),
        wrote("controller", "b", 1.2, 3.0),
        Entry("controller", "agent", "get", "secrets", "", "b", "db", 200, 1.2, 9.0),
        wrote("somebody", "c", 1.0, 8.0),
    ]
    burst = fan_out(entries, WritesOf("bench", ("db",)), WritesOf("controller", ("db",)), Cpu(0.004, 0.002, 0.001))
    assert (burst.copies, burst.seconds, burst.per_second) == (2, 2.0, 1.0)
    assert burst.counts == Counts(writes=2, reads=1)
    assert burst.cpu_ms == pytest.approx(Cpu(2.0, 1.0, 0.5))
    assert burst.cpu_ms.serving == pytest.approx(3.0)


def test_a_copy_written_twice_is_one_copy_and_two_requests() -> None:
    entries = [wrote("bench", "admin", 0.0, 0.0), wrote("c", "a", 0.0, 1.0), wrote("c", "a", 1.0, 2.0, "update")]
    burst = fan_out(entries, WritesOf("bench", ("db",)), WritesOf("c", ("db",)), Cpu(0, 0, 0))
    assert (burst.copies, burst.per_copy(burst.counts.writes), burst.seconds) == (1, 2.0, 2.0)


def test_a_trial_lasts_from_its_first_request_to_its_last_answer() -> None:
    entries = [wrote("bare", "a", 1.0, 1.5), wrote("bare", "b", 1.1, 3.0), wrote("other", "c", 0.0, 9.0)]
    burst = trial(entries, "bare", Cpu(0.2, 0.1, 0.1))
    assert (burst.copies, burst.seconds) == (2, 2.0)
    assert burst.cpu_ms.serving == pytest.approx(150.0)


def test_a_ratio_is_taken_with_what_was_measured_before_and_after() -> None:
    assert ratios([90.0, 300.0], [100.0, 200.0, 400.0]) == [0.6, 1.0]


def test_a_delay_is_counted_only_for_namespaces_that_were_made_meanwhile() -> None:
    assert delays({"a": 1.0, "b": 2.0}, {"a": 1.5, "b": 2.25, "old": 9.0}) == [250.0, 500.0]


@pytest.mark.parametrize(("percent", "rank"), [(50, 100), (99, 198), (100, 200), (0, 1)])
def test_a_percentile_is_a_figure_that_was_measured(percent: float, rank: int) -> None:
    assert percentile([float(number) for number in range(1, 201)], percent) == rank


def test_without_measurements_a_figure_is_nan() -> None:
    assert math.isnan(percentile([], 50))
    assert math.isnan(median([]))


def test_used_cpu_is_a_difference() -> None:
    assert Cpu(3.0, 2.0, 1.0).since(Cpu(1.0, 1.5, 1.0)) == Cpu(2.0, 0.5, 0.0)


def test_a_process_name_with_brackets_does_not_shift_its_fields() -> None:
    stat = "42 (a) b) S 7 " + " ".join(["0"] * 9) + " 150 50 20 30 0 0"
    assert parent_of(stat) == 7
    assert cpu_of(stat) == 2.5


def test_memory_is_given_in_millions_of_bytes() -> None:
    assert megabytes_of("VmPeak:\t9 kB\nVmHWM:\t   50000 kB\n", "VmHWM") == 51.2
    assert megabytes_of("Name:\tkernel\n", "VmHWM") == 0.0


def test_a_stall_is_found_in_metrics_that_name_one() -> None:
    metrics = "# TYPE samara_loop_longest_stall_seconds gauge\nsamara_loop_longest_stall_seconds 0.125\nother 3\n"
    assert stall_in(metrics) == 0.125
    assert stall_in("samara_synced 1.0\n") is None


def test_a_limit_is_compared_with_the_figure_as_it_is_shown() -> None:
    assert Row("requests", 1.0004, most=1).passed
    assert Row("requests", 1.006, most=1).passed is False
    assert Row("share", 84.4, "%", 0, least=85).passed is False
    assert Row("share", 85.0, "%", 0, least=85).passed


def test_a_figure_that_was_not_measured_does_not_pass() -> None:
    assert Row("ready", None, "s", most=2).passed is False
    assert Row("ready", math.nan, "s", most=2).passed is False
    assert Row("for the record", None).passed is None


def test_the_table_shows_limit_and_verdict_beside_the_figure() -> None:
    shown = table([Row("peak memory", 71.3, "MB", 1, most=60), Row("fill", 1234.4, "/s", 0)])
    assert shown.splitlines() == ["peak memory   71.3 MB  <= 60 MB  FAIL", "fill         1,234 /s"]


def test_the_fastest_run_of_a_command_counts() -> None:
    assert fastest({"status": [3.0, 2.0, 9.0]}, "status") == 2.0
    assert math.isnan(fastest({"status": []}, "status"))


@pytest.mark.parametrize(
    ("why", "status", "plan", "passed"), [(1.0, 5.0, 4.0, [True] * 3), (1.1, 5.1, 4.1, [False] * 3)]
)
def test_commands_have_limits_relative_to_kubectl_and_to_each_other(
    why: float, status: float, plan: float, passed: list[bool]
) -> None:
    filled = {KUBECTL: [10.0], WHY: [why], WHY_SOURCE: [9.0], STATUS: [status]}
    before = {STATUS: [2.0], PLAN: [plan]}
    rows = command_rows(Commands(10_000, 30_000, before, filled))
    assert [row.passed for row in rows if row.passed is not None] == passed


def test_the_runs_on_ten_thousand_namespaces_are_done_on_request_only() -> None:
    assert parse([]).only.isdisjoint({"commands", "large"})
    assert parse(["--full"]).only >= {"commands", "large"}
    assert parse(["--copies", "500", "--only", "large"]).copies == 500
    assert parse(["--full"]).namespaces == 10_000


def test_a_vocabulary_without_a_workload_is_measured_with_an_annotation_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(options, "VOCABULARIES", (*VOCABULARIES, toys.CHAINS))
    asked = ["--vocabulary", toys.CHAINS.name]
    assert parse([*asked, "--source-annotation", "toys.dev/chain=all"]).annotations == {"toys.dev/chain": "all"}
    with pytest.raises(SystemExit):
        parse(asked)


def test_every_module_in_the_folder_of_workloads_is_the_workload_of_a_vocabulary() -> None:
    modules = {path.stem for path in Path(workloads.__file__).parent.glob("[a-z]*.py")}
    assert modules == {name.replace("-", "_") for name in MEASURED}


def test_a_vocabulary_that_is_off_until_named_is_measured_with_settings_that_name_it() -> None:
    for vocabulary in VOCABULARIES:
        measured = parse(["--vocabulary", vocabulary.name, "--source-annotation", "share=all"])
        assert measured.settings is not None or not vocabulary.is_off_until_named
        assert ("{config}" in measured.controller) == (measured.settings is not None)


@pytest.mark.parametrize("name", MEASURED)
def test_what_was_measured_of_any_vocabulary_can_be_written_as_json(name: str, tmp_path: Path) -> None:
    asked = parse(["--vocabulary", name, "--out", str(tmp_path)])
    written = json.loads(write_json(asked, Report(asked.least_rate)).read_text())
    assert written["options"]["vocabulary"] == name


def test_in_a_deep_tree_every_namespace_has_its_children() -> None:
    tree, deep = workload_of("accurate"), parse(["--vocabulary", "accurate", "--deep"])
    assert tree is not None
    parents = [tree.labels_of(f"n-{number:05}", deep)["accurate.cybozu.com/parent"] for number in range(9)]
    assert parents == ["admin"] * 4 + ["n-00000"] * 4 + ["n-00001"]
    assert tree.labels_of("n-00008", parse([])) == {"accurate.cybozu.com/parent": "admin"}


def test_options_name_labels_and_annotations_of_another_controller() -> None:
    given = parse(["--controller", "x {kubeconfig}", "--source-annotation", "replicate=true"])
    assert (given.controller, given.annotations) == ("x {kubeconfig}", {"replicate": "true"})
