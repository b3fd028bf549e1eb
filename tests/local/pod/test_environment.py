"""What a container's environment becomes on this machine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.local.conftest import Start, container, job, some_host, task, texts
from vcjob.local.pod import environment
from vcjob.local.pod.environment import MissingReference, expand
from vcjob.sdk.yaml_text import to_yaml


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("a$", "a$"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text())
def test_text_without_a_dollar_sign_stays_as_it_is(text: str) -> None:
    text = text.replace("$", "")
    assert expand(text, {"A": "1"}) == text


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MASTER_ADDR", "job-master-0.job", "127.0.0.1"),
        ("MASTER_PORT", "23456", "20001"),
        ("PET_MASTER_PORT", "23456", "20001"),
        ("OTHER_PORT", "23456", "23456"),
        ("HOSTS", "job-worker-0.job,job-worker-1.job", "127.0.0.1,127.0.0.1"),
        ("LONG", "tcp://job-master-0.job.default.svc.cluster.local:99", "tcp://127.0.0.1:99"),
        ("ENDPOINT", "job-master-0.job:23456", "127.0.0.1:20001"),
        ("OTHER", "another-job-master-0.job", "another-job-master-0.job"),
        ("FILE", "job-master-0.jobless", "job-master-0.jobless"),
    ],
)
def test_a_value_that_names_the_cluster_is_made_to_mean_this_machine(
    name: str, value: str, expected: str
) -> None:
    assert some_host().localize(name, value) == expected


def test_the_data_of_a_secret_is_base64_text_of_several_lines_plain_text_or_empty() -> None:
    secret = {"data": {"a": "YWJj\nZGVm\n", "b": None, "c": "AA=="}, "stringData": {"c": "plain", "d": None}}
    assert environment.secret_data(secret) == {"a": b"abcdef", "b": b"", "c": b"plain", "d": b""}


def test_binary_data_of_a_config_map_becomes_files_and_as_on_a_cluster_no_variables(finish: Start) -> None:
    config_map = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
        "data": {"TEXT": "words", "none": None}, "binaryData": {"BYTES": "YWJj/w=="},
    }  # fmt: skip
    key = {"name": "c", "key": "BYTES", "optional": True}
    script = "cd ${VCJOB_MOUNT_VCJOB_CONFIG:-/vcjob-config} && od -An -tx1 BYTES; cat TEXT none; echo; echo $ONE $BYTES $TEXT"
    main = container(
        script, env=[{"name": "ONE", "valueFrom": {"configMapKeyRef": key}}],
        envFrom=[{"configMapRef": {"name": "c"}}], volumeMounts=[{"name": "v", "mountPath": "/vcjob-config"}],
    )  # fmt: skip
    document = job(task("a", main, volumes=[{"name": "v", "configMap": {"name": "c"}}]))
    handle = finish("---\n".join(map(to_yaml, (document, config_map))))
    assert texts(handle) == [" 61 62 63 ff", "words", "words"]


def test_a_missing_key_is_named_and_an_optional_one_is_left_out() -> None:
    host = some_host(config_maps={"c": {"there": "x"}})
    pod = {"metadata": {"uid": "u", "name": "p"}, "spec": {}}

    def env(**reference: Any) -> dict[str, str]:
        entry = {"name": "V", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", **reference}}}
        return environment.container_env({"name": "m", "env": [entry]}, pod, host, {})[1]

    with pytest.raises(MissingReference, match="has no key 'k'"):
        env()
    assert env(optional=True) == {}
    assert env(key="there") == {"V": "x"}
