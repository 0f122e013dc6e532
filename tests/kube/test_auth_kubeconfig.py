"""Kubeconfig files: merging like kubectl, and refusals that name what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from samara.kube.auth.kubeconfig import SelectedContext, read, select_context
from samara.kube.errors import ConfigError

CANARY = "c4n4ry-s3cret"


def write(path: Path, content: dict[str, Any] | str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def config(name: str = "a", current: str = "", user: Any = None, cluster: Any = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster or {"server": f"https://{name}"}}],
        "users": [{"name": name, "user": user}],
    }


def one(tmp_path: Path, **parts: Any) -> SelectedContext:
    return select_context(read([write(tmp_path / "config", config(current="a", **parts))]), None)


def test_the_first_file_wins_for_each_name(tmp_path: Path) -> None:
    first = write(tmp_path / "1", config("a", cluster={"server": "https://first"}))
    second = write(tmp_path / "2", config("a", cluster={"server": "https://second"}))
    third = write(tmp_path / "3", config("b"))

    merged = read([first, second, third])

    assert select_context(merged, "a").cluster.server == "https://first"
    assert select_context(merged, "b").cluster.server == "https://b"


def test_the_first_file_that_sets_a_current_context_wins(tmp_path: Path) -> None:
    files = [write(tmp_path / name, config(name, current)) for name, current in (("a", ""), ("b", "b"), ("c", "c"))]

    assert select_context(read(files), None).context == "b"


def test_a_context_may_point_into_another_file(tmp_path: Path) -> None:
    first = write(tmp_path / "1", {"contexts": [{"name": "x", "context": {"cluster": "a", "user": "b"}}]})
    files = [first, write(tmp_path / "2", config("a")), write(tmp_path / "3", config("b"))]

    chosen = select_context(read(files), "x")

    assert (chosen.cluster_entry.file, chosen.user_entry.file) == (files[1], files[2])


def test_an_empty_file_among_others_is_skipped(tmp_path: Path) -> None:
    files = [write(tmp_path / "1", ""), write(tmp_path / "2", config(current="a"))]

    assert select_context(read(files), None).context == "a"


def test_null_means_the_default(tmp_path: Path) -> None:
    plugin = {"apiVersion": "v1", "command": "c", "args": None, "env": None}

    chosen = one(tmp_path, user={"token": None, "auth-provider": None, "exec": plugin})

    assert chosen.user.exec
    assert chosen.user.exec.args == ()


def test_json_is_a_kubeconfig_too(tmp_path: Path) -> None:
    file = write(tmp_path / "c", '{"clusters":[],"users":[],"contexts":[],"current-context":"a"}')

    assert read([file]).current == "a"


def test_extensions_are_accepted(tmp_path: Path) -> None:
    more = [{"name": "minikube", "extension": {"version": "1"}}]

    chosen = one(tmp_path, user={"extensions": more}, cluster={"server": "https://a", "extensions": more})

    assert chosen.user.extensions == more


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "found an empty file"),
        ("# nothing\n", "found an empty file"),
        ("just words", "found a str"),
        ("- a\n- b\n", "found a list"),
        (f"a: b\ntoken: [{CANARY}\n", "syntax error (line "),
        (f"token: *{CANARY}\n", "syntax error"),
        ("a: \x01b", "syntax error"),
        ("kind: Secret\napiVersion: v1\n", "found another kind of document"),
        ("users: {a: b}\n", "found a dict"),
        ("users: [{user: {}}]\n", "found an entry without a name"),
        ("users: [a]\n", "found an entry without a name"),
        (f"users: [{{name: u, user: {CANARY}}}]\n", "found a str under 'u'"),
        ("users: [{name: u}, {name: u}]\n", "found 'u' twice"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused_by_name(tmp_path: Path, content: str, says: str) -> None:
    file = write(tmp_path / "config", content)

    with pytest.raises(ConfigError) as caught:
        read([file])

    assert str(file) in str(caught.value)
    assert says in str(caught.value)
    assert CANARY not in f"{caught.value} {caught.value.__cause__}"


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(b"\xff\x00\x81")

    with pytest.raises(ConfigError, match="syntax error"):
        read([file])


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read([tmp_path])


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read([tmp_path / "config"])


def test_the_error_for_an_unknown_context_lists_the_contexts(tmp_path: Path) -> None:
    files = [write(tmp_path / name, config(name)) for name in ("prod", "dev")]

    with pytest.raises(ConfigError, match="no context 'stage'; there are: dev, prod"):
        select_context(read(files), "stage")


def test_the_error_without_a_current_context_lists_the_contexts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--context \(there are: prod\)"):
        select_context(read([write(tmp_path / "c", config("prod"))]), None)


def test_a_long_list_of_names_is_cut(tmp_path: Path) -> None:
    files = [write(tmp_path / f"c{n}", config(f"c{n:02}")) for n in range(25)]

    with pytest.raises(ConfigError, match="c19 and 5 more"):
        select_context(read(files), "x")


@pytest.mark.parametrize("what", ["cluster", "user"])
def test_the_error_for_a_dangling_context_lists_the_defined_names(tmp_path: Path, what: str) -> None:
    content = config("a", "a")
    content["contexts"][0]["context"][what] = "gone"
    missing = config("a", "a")
    del missing["contexts"][0]["context"][what]

    with pytest.raises(ConfigError, match=f"name of a {what}, found 'gone', which is not defined; there are: a"):
        select_context(read([write(tmp_path / "c", content)]), None)
    with pytest.raises(ConfigError, match=f"name of a {what}, found none; there are: a"):
        select_context(read([write(tmp_path / "c", missing)]), None)


def test_the_error_for_an_auth_provider_names_its_replacement(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'auth-provider' is not supported.*exec.*gke-gcloud-auth-plugin"):
        one(tmp_path, user={"auth-provider": {"name": "gcp", "config": {"access-token": CANARY}}})


def test_an_unused_user_is_not_checked(tmp_path: Path) -> None:
    content = config("a", "a")
    content["users"].append({"name": "other", "user": {"auth-provider": {"name": "gcp"}}})

    assert select_context(read([write(tmp_path / "c", content)]), None).context == "a"


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"user": {"token-file": CANARY}}, "user 'a' in .*'token-file' is not supported; did you mean tokenFile?"),
        ({"user": {"zzz": CANARY}}, "'zzz' is not supported; remove it"),
        ({"user": {"exec": {"command": "c", "timeout": 3}}}, "exec of user 'a' in .*'timeout' is not supported"),
        ({"cluster": {"server": "https://a", "tls-min-version": "1"}}, "cluster 'a' in .*'tls-min-version'"),
        ({"user": {"token": 12345}}, "user 'a' in .*Expected `str`, got `int` - at `\\$.token`"),
        ({"user": {"exec": "c"}}, "Expected `object \\| null`, got `str` - at `\\$.exec`"),
    ],
)
def test_an_unsupported_field_is_refused_by_name(tmp_path: Path, parts: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        one(tmp_path, **parts)

    assert CANARY not in str(caught.value)


def test_no_repr_shows_a_secret(tmp_path: Path) -> None:
    env = [{"name": "N", "value": CANARY}]
    plugin = {"command": "c", "args": [CANARY], "env": env}
    user = {"token": CANARY, "password": CANARY, "client-key-data": CANARY, "exec": plugin}
    cluster = {"server": "https://a", "proxy-url": f"http://u:{CANARY}@p"}

    merged = read([write(tmp_path / "config", config(current="a", user=user, cluster=cluster))])
    chosen = select_context(merged, None)

    assert CANARY not in f"{merged!r} {chosen!r} {chosen.user.exec!r} {chosen.user.exec and chosen.user.exec.env!r}"
