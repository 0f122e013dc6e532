"""kubectl's flags over a kubeconfig."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from samara.kube.auth import Access, load
from samara.kube.auth.kubeconfig import NO_FLAGS, Flags, select_context
from samara.kube.errors import ConfigError


def config(folder: Path, *, current: str = "one") -> Path:
    file = folder / "config"
    content = {
        "current-context": current,
        "contexts": [{"name": "one", "context": {"cluster": "here", "user": "eve", "namespace": "team"}}],
        "clusters": [
            {"name": "here", "cluster": {"server": "https://here", "tls-server-name": "inner"}},
            {"name": "there", "cluster": {"server": "https://there"}},
        ],
        "users": [
            {"name": "eve", "user": {"token": "of-eve", "as-groups": ["g"], "as": "boss"}},
            {"name": "adam", "user": {"username": "adam", "password": "x"}},
        ],
    }
    file.write_text(yaml.safe_dump(content))
    return file


def access(folder: Path, file: Path | None, flags: Flags, context: str | None = None) -> Access:
    return load(str(file) if file else None, context, None, None, {}, folder, flags=flags)


def headers(loaded: Access) -> dict[str, list[str]]:
    sent: dict[str, list[str]] = {}
    for key, value in asyncio.run(loaded.credentials.headers()):
        sent.setdefault(key, []).append(value)
    return sent


def test_the_flags_cluster_and_user_replace_those_of_the_context(tmp_path: Path) -> None:
    loaded = access(tmp_path, config(tmp_path), Flags(cluster="there", user="adam"))
    assert (loaded.server, loaded.namespace) == ("https://there", "team")
    assert headers(loaded)["Authorization"][0].startswith("Basic ")


@pytest.mark.parametrize(("flags", "what"), [(Flags(cluster="x"), "cluster"), (Flags(user="x"), "user")])
def test_the_error_names_an_undefined_cluster_or_user(tmp_path: Path, flags: Flags, what: str) -> None:
    with pytest.raises(ConfigError, match=f"expected the name of a {what}, found 'x'"):
        access(tmp_path, config(tmp_path), flags)


def test_tls_server_name_of_the_kubeconfig_does_not_apply_to_another_server(tmp_path: Path) -> None:
    assert access(tmp_path, config(tmp_path), NO_FLAGS).server_hostname == "inner"
    loaded = access(tmp_path, config(tmp_path), Flags(server="https://other:1"))
    assert (loaded.server, loaded.server_hostname) == ("https://other:1", None)
    assert access(tmp_path, config(tmp_path), Flags(tls_server_name="n")).server_hostname == "n"


def test_a_token_replaces_the_user_of_the_kubeconfig(tmp_path: Path) -> None:
    loaded = access(tmp_path, config(tmp_path), Flags(user="adam", token="t"))
    assert headers(loaded)["Authorization"] == ["Bearer t"]


def test_groups_uid_and_extra_replace_those_of_the_kubeconfig(tmp_path: Path) -> None:
    flags = Flags(as_groups=("h", "i"), as_uid="7", as_user_extra=("k=v", "k=w"))
    sent = headers(access(tmp_path, config(tmp_path), flags))
    assert sent["Impersonate-User"] == ["boss"]
    assert sent["Impersonate-Group"] == ["h", "i"]
    assert sent["Impersonate-Uid"] == ["7"]
    assert sent["Impersonate-Extra-k"] == ["v", "w"]
    with pytest.raises(ConfigError, match="expected KEY=VALUE"):
        access(tmp_path, config(tmp_path), Flags(as_user_extra=("k",)))


def test_a_server_needs_no_context_and_no_kubeconfig(tmp_path: Path) -> None:
    flags = Flags(server="https://other", token="t")
    for file in (None, config(tmp_path, current="")):
        loaded = access(tmp_path, file, flags)
        assert (loaded.server, loaded.namespace, headers(loaded)["Authorization"]) == (
            "https://other",
            "default",
            ["Bearer t"],
        )


def test_paths_in_flags_are_relative_to_the_working_directory_and_replace_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = Flags(server="https://x", certificate_authority="ca.pem", client_certificate="c", client_key="k")
    chosen = select_context(None, None, flags)
    assert chosen.cluster.certificate_authority == str(tmp_path / "ca.pem")
    assert (chosen.user.client_certificate, chosen.user.client_key) == (str(tmp_path / "c"), str(tmp_path / "k"))


def test_insecure_drops_the_authority_of_the_kubeconfig(tmp_path: Path) -> None:
    file = config(tmp_path)
    text = yaml.safe_load(file.read_text())
    text["clusters"][0]["cluster"]["certificate-authority-data"] = "bm9uc2Vuc2U="
    file.write_text(yaml.safe_dump(text))
    loaded = access(tmp_path, file, Flags(insecure_skip_tls_verify=True))
    assert loaded.ssl is not None
    assert not loaded.ssl.check_hostname


def test_no_repr_shows_a_token() -> None:
    assert "hush" not in repr(Flags(token="hush"))
