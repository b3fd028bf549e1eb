"""The Jobs that run on both backends. Each prints what it sees; nothing here says what is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests import documents

Object = dict[str, Any]

CONFIG: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "config"},
    "data": {"colour": "blue", "text": "two\nlines\n", "script": "#!/bin/busybox sh\necho from a volume\n"},
}
SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "keys"},
    "stringData": {"token": "s3cret", "user": "me"},
}
BUNDLE = (CONFIG, SECRET)


_OF_TASKS: tuple[str, ...] = ("policies", "dependsOn", "minAvailable", "maxRetry")


class Case(NamedTuple):
    """One Job. `ordered`: both streams together are compared too, which needs pauses between writes."""

    name: str
    spec: Object
    ordered: bool = False

    @property
    def job(self) -> Object:
        return documents.job(self.name, **self.spec)


def container(script: str | list[str], name: str = "main", **fields: Any) -> Object:
    words = ["busybox", "sh", "-c", script] if isinstance(script, str) else script
    return {"name": name, "image": "busybox:1.36.1", "command": words, **fields}


def task(*containers: Object | str, name: str = "t", replicas: int = 1, **fields: Any) -> Object:
    own: Object = {key: fields.pop(key) for key in _OF_TASKS if key in fields}
    metadata = fields.pop("metadata", {})
    listed = [container(given) if isinstance(given, str) else given for given in containers]
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": listed, **fields}
    return {"name": name, "replicas": replicas, "template": {"metadata": metadata, "spec": spec}, **own}


def one(name: str, script: str | list[str], *, ordered: bool = False, **fields: Any) -> Case:
    """A Job of one container; what belongs to the pod is given as `pod`."""
    pod = fields.pop("pod", {})
    return Case(name, {"tasks": [task(container(script, **fields), **pod)]}, ordered)


def job(name: str, *tasks: Object, **spec: Any) -> Case:
    return Case(name, {"tasks": list(tasks), **spec})


def mounted(name: str, script: str, *volumes: Object, mounts: list[Object] | None = None, **pod: Any) -> Case:
    """A container that sees each volume at /NAME."""
    found = mounts or [{"name": v["name"], "mountPath": f"/{v['name']}"} for v in volumes]
    return one(name, script, volumeMounts=found, pod={"volumes": list(volumes), **pod})


def _value(name: str, **source: Object) -> Object:
    return {"name": name, "valueFrom": source}


def _config(**fields: Any) -> Object:
    return {"name": "v", "configMap": {"name": "config", **fields}}


def _secret(**fields: Any) -> Object:
    return {"name": "v", "secret": {"secretName": "keys", **fields}}


#: Every file below /v with its mode and content.
LIST_FILES = (
    "cd /v; for f in $(find -L . -type f | grep -v '/\\.\\.' | sort); do stat -L -c '%a %n' $f; cat $f; done"
)
#: What kind of file system /v is, and whether it is read-only.
MOUNT_TYPE = 'awk \'$2 == "/v" {print ($3 == "tmpfs" ? "tmpfs" : "disk"), substr($4, 1, 2)}\' /proc/mounts'


def corpus() -> list[Case]:
    cases = [
        *_endings(),
        *_commands(),
        *_streams(),
        *_environment(),
        *_files(),
        *_volumes(),
        *_pods(),
        *_jobs(),
    ]
    assert len({case.name for case in cases}) == len(cases)
    return cases


def _endings() -> Iterator[Case]:
    for code in (0, 1, 42, 127, 255):
        yield one(f"exit-{code}", f"exit {code}")
    yield one("child-killed-by-kill", "sh -c 'kill -KILL $$$$'; exit $?")
    yield one("child-killed-by-term", "sh -c 'kill -TERM $$$$'; exit $?")
    yield one("kills-itself", "kill -TERM $$$$; sleep 1; echo still here")
    yield one("exits-from-a-trap", "trap 'echo trapped; exit 7' TERM; kill -TERM $$$$; sleep 5")
    yield one("leaves-a-child-behind", "sleep 300 & echo started")
    yield one("leaves-a-session-behind", "setsid sleep 300 & sleep 0.2; echo started")
    yield one(
        "exceeds-its-memory",
        "x=abcdefghijklmnop; while true; do x=$x$x; done",
        resources={"limits": {"memory": "32Mi"}},
    )


def _commands() -> Iterator[Case]:
    env = [{"name": "A", "value": "value of A"}]
    yield one("command-not-found", ["no-such-command"])
    yield one("command-is-a-folder", ["/etc"])
    yield mounted("command-not-executable", "true", _config(), containers=[
        container(["/v/script"], volumeMounts=[{"name": "v", "mountPath": "/v"}])])  # fmt: skip
    yield mounted("command-from-a-volume", "true", _config(defaultMode=0o755), containers=[
        container(["/v/script"], volumeMounts=[{"name": "v", "mountPath": "/v"}])])  # fmt: skip
    yield one("references-in-the-command", ["busybox", "echo", "$(A)", "$$(A)", "$(MISSING)", "$A"], env=env)
    yield one("references-in-the-arguments", ["busybox", "echo"], args=["-$(A)-", "$$$(A)"], env=env)
    yield one("arguments-with-blanks", ["busybox", "printf", "[%s]\\n"], args=["a b", "", "two\nlines", "*"])
    yield one("working-folder", "pwd", workingDir="/tmp")
    yield one("working-folder-that-does-not-exist", "pwd", workingDir="/no/such/folder")
    yield mounted("working-folder-in-a-volume", "true", {"name": "v", "emptyDir": {}}, containers=[container(
        "pwd; touch here; ls /v", workingDir="/v", volumeMounts=[{"name": "v", "mountPath": "/v"}])])  # fmt: skip
    yield one("stdin-is-empty", "if read line; then echo read; else echo end; fi")
    yield one("stdout-is-no-terminal", "test -t 1 && echo terminal || echo none")
    yield one("umask", "umask")
    yield one("process-number", "echo $$$$")
    yield one("user", "id -u; id -g")


def _streams() -> Iterator[Case]:
    yield one("two-streams", "echo out; echo err >&2")
    yield one(
        "order-of-the-streams",
        "echo out 1; sleep 1; echo err 1 >&2; sleep 1; echo out 2; sleep 1; echo err 2 >&2",
        ordered=True,
    )
    yield one(
        "opens-dev-stderr", "echo one; echo e1 >/dev/stderr; echo e2 >/dev/stderr; echo two >/dev/stdout"
    )
    yield one("tee-to-dev-stderr", "echo one | tee /dev/stderr; echo two | tee -a /dev/stderr")
    yield one("opens-its-descriptor", "echo one >/proc/self/fd/1; echo two >/proc/self/fd/2; echo three")
    yield one("no-line-break-at-the-end", "printf 'a\\nb'")
    yield one("empty-lines", "printf '\\n\\na\\n\\n'")
    yield one("carriage-returns", "printf '10%%\\r20%%\\r30%%\\ndone\\r\\n'")
    yield one("bytes-that-are-no-text", "printf 'a\\377\\001b\\n'")
    yield one("a-long-line", "head -c 100000 /dev/zero | tr '\\0' x; echo; echo end")
    yield one("many-lines", "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done")
    yield one("much-just-before-a-failure", "seq 1 20000; exit 3")
    yield one("closes-its-streams", "echo before; exec >&- 2>&-; sleep 0.2; exit 4")
    yield one("background-output", "(sleep 0.2; echo child) & echo parent; wait")
    yield one("nothing-at-all", "true")


def _environment() -> Iterator[Case]:
    show = "env | grep ^X_ | sort"
    yield one("values", show, env=[
        {"name": "X_A", "value": "a"}, {"name": "X_EMPTY", "value": ""}, {"name": "X_NONE"},
        {"name": "X_ODD", "value": " blanks  and = \"quotes\" 'x' $HOME \\n "},
    ])  # fmt: skip
    yield one("references", show, env=[
        {"name": "X_EARLY", "value": "$(X_LATE)"}, {"name": "X_LATE", "value": "late"},
        {"name": "X_AFTER", "value": "<$(X_LATE)>"}, {"name": "X_ESCAPED", "value": "$$(X_LATE)"},
        {"name": "X_TWICE", "value": "$(X_AFTER)$(X_AFTER)"},
    ])  # fmt: skip
    yield one(
        "the-same-name-twice", show, env=[{"name": "X_A", "value": "1"}, {"name": "X_A", "value": "2$(X_A)"}]
    )
    yield one("from-keys", show, env=[
        _value("X_COLOUR", configMapKeyRef={"name": "config", "key": "colour"}),
        _value("X_TOKEN", secretKeyRef={"name": "keys", "key": "token"}),
        _value("X_GONE", configMapKeyRef={"name": "config", "key": "none", "optional": True}),
        _value("X_NOWHERE", secretKeyRef={"name": "none", "key": "none", "optional": True}),
    ])  # fmt: skip
    yield one("from-a-config-map", show, envFrom=[{"prefix": "X_", "configMapRef": {"name": "config"}}])
    yield one("from-a-secret", show, envFrom=[
        {"prefix": "X_", "secretRef": {"name": "keys"}},
        {"prefix": "X_", "configMapRef": {"name": "none", "optional": True}},
    ], env=[{"name": "X_user", "value": "overridden"}])  # fmt: skip
    yield one("from-the-pod", show, env=[
        _value("X_NAME", fieldRef={"fieldPath": "metadata.name"}),
        _value("X_LABEL", fieldRef={"fieldPath": "metadata.labels['team']"}),
        _value("X_NO_LABEL", fieldRef={"fieldPath": "metadata.labels['none']"}),
        _value("X_NOTE", fieldRef={"fieldPath": "metadata.annotations['note']"}),
        _value("X_ACCOUNT", fieldRef={"fieldPath": "spec.serviceAccountName"}),
    ], pod={"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "some text"}}})  # fmt: skip
    resources = {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "1500m", "memory": "64Mi"}}
    yield one("from-resources", show, resources=resources, env=[
        _value("X_CPU", resourceFieldRef={"resource": "limits.cpu"}),
        _value("X_MILLI", resourceFieldRef={"resource": "limits.cpu", "divisor": "1m"}),
        _value("X_REQUEST", resourceFieldRef={"resource": "requests.cpu"}),
        _value("X_BYTES", resourceFieldRef={"resource": "limits.memory"}),
        _value("X_MEBI", resourceFieldRef={"resource": "requests.memory", "divisor": "1Mi"}),
    ])  # fmt: skip
    ranks = "echo rank $RANK of $WORLD_SIZE; env | grep -c '^MASTER_'"
    yield job("pytorch-plugin", task(ranks, name="master"), task(ranks, name="worker", replicas=2),
              plugins={"pytorch": []})  # fmt: skip
    yield job("env-plugin", task("echo $VC_TASK_INDEX $VK_TASK_INDEX", replicas=2), plugins={"env": []})
    yield job("svc-plugin", task("ls /etc/volcano; wc -l </etc/volcano/t.host; echo $VC_T_NUM", replicas=2),
              plugins={"svc": []})  # fmt: skip


def _files() -> Iterator[Case]:
    yield mounted("config-map-files", LIST_FILES, _config())
    yield mounted("config-map-default-mode", LIST_FILES, _config(defaultMode=0o440))
    yield mounted("config-map-items", LIST_FILES, _config(items=[
        {"key": "colour", "path": "deep/colour", "mode": 0o755}, {"key": "text", "path": "text"}]))  # fmt: skip
    yield mounted("config-map-folder", "stat -c %a /v; touch /v/new; " + MOUNT_TYPE, _config())
    yield mounted(
        "config-map-optional", LIST_FILES, {"name": "v", "configMap": {"name": "none", "optional": True}}
    )
    yield mounted("one-file-of-a-config-map", "cat /etc/colour; stat -c %a /etc/colour", _config(),
                  mounts=[{"name": "v", "mountPath": "/etc/colour", "subPath": "colour"}])  # fmt: skip
    yield mounted("secret-files", LIST_FILES, _secret())
    yield mounted("secret-modes", LIST_FILES, _secret(defaultMode=0o400, items=[
        {"key": "token", "path": "token"}, {"key": "user", "path": "user", "mode": 0o444}]))  # fmt: skip
    yield mounted("secret-folder", "stat -c %a /v; touch /v/new; " + MOUNT_TYPE, _secret())
    yield mounted("projected-files", LIST_FILES, {"name": "v", "projected": {"defaultMode": 0o600, "sources": [
        {"configMap": {"name": "config", "items": [{"key": "colour", "path": "c/colour"}]}},
        {"secret": {"name": "keys", "items": [{"key": "user", "path": "user", "mode": 0o444}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]}})  # fmt: skip
    downward = [
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "team", "mode": 0o400, "fieldRef": {"fieldPath": "metadata.labels['team']"}},
        {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations['note']"}},
        {"path": "memory", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory"}},
    ]
    yield one("downward-api-files", LIST_FILES, volumeMounts=[{"name": "v", "mountPath": "/v"}],
              resources={"limits": {"memory": "64Mi"}}, pod={
                  "volumes": [{"name": "v", "downwardAPI": {"items": downward}}],
                  "metadata": {"labels": {"team": "blue"}, "annotations": {"note": "some text"}}})  # fmt: skip


def _volumes() -> Iterator[Case]:
    empty = {"name": "v", "emptyDir": {}}
    memory = {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    at_v = [{"name": "v", "mountPath": "/v"}]
    yield mounted("empty-dir", "stat -c %a /v; echo x >/v/x; cat /v/x; " + MOUNT_TYPE, empty)
    yield mounted("empty-dir-in-memory", "stat -c %a /v; " + MOUNT_TYPE, memory)
    yield mounted("empty-dir-in-memory-is-full",
                  "head -c 800000 /dev/zero >/v/a && echo fits; head -c 800000 /dev/zero >/v/b || echo full",
                  memory)  # fmt: skip
    yield mounted("shared-memory", "awk '$2 == \"/dev/shm\" {print $3}' /proc/mounts | tail -n 1; df -k /dev/shm | awk 'END {print $2}'",
                  memory, mounts=[{"name": "v", "mountPath": "/dev/shm"}])  # fmt: skip
    yield mounted("empty-dir-evicted", "head -c 4000000 /dev/zero >/v/x; sleep 300",
                  {"name": "v", "emptyDir": {"sizeLimit": "1Mi"}})  # fmt: skip
    yield mounted("read-only-mount", "touch /v/x || echo refused; " + MOUNT_TYPE, empty,
                  mounts=[{**at_v[0], "readOnly": True}])  # fmt: skip
    yield mounted("sub-path", "echo x >/a/x; ls /whole; ls /whole/part; stat -c %a /a", empty, mounts=[
        {"name": "v", "mountPath": "/a", "subPath": "part"}, {"name": "v", "mountPath": "/whole"}])  # fmt: skip
    yield one("sub-path-with-a-variable", "ls /whole", env=[{"name": "PART", "value": "some"}], volumeMounts=[
        {"name": "v", "mountPath": "/a", "subPathExpr": "$(PART)-part"}, {"name": "v", "mountPath": "/whole"}],
        pod={"volumes": [empty]})  # fmt: skip
    yield mounted("mount-in-a-mount", "echo outer >/v/x; ls -R /v; cat /v/inner/colour", empty,
                  {"name": "c", "configMap": {"name": "config"}}, mounts=[
                      *at_v, {"name": "c", "mountPath": "/v/inner"}])  # fmt: skip
    yield mounted("mount-at-a-new-path", "echo x >/no/such/place/x; cat /no/such/place/x", empty,
                  mounts=[{"name": "v", "mountPath": "/no/such/place"}])  # fmt: skip
    yield one("volume-survives-a-restart",
              "echo x >>/v/runs; wc -l </v/runs; [ $(wc -l </v/runs) = 2 ] || exit 1", volumeMounts=at_v,
              pod={"volumes": [empty], "restartPolicy": "OnFailure"})  # fmt: skip
    yield one("volume-in-memory-survives-a-restart",
              "echo x >>/v/runs; [ $(wc -l </v/runs) = 2 ] || exit 1; cat /v/runs", volumeMounts=at_v,
              pod={"volumes": [memory], "restartPolicy": "OnFailure"})  # fmt: skip
    yield job("volume-shared-by-containers", task(
        container("while [ ! -e /v/x ]; do sleep 0.05; done; cat /v/x", "reader", volumeMounts=at_v),
        container("echo written >/v/x", "writer", volumeMounts=at_v), volumes=[empty]))  # fmt: skip


def _pods() -> Iterator[Case]:
    shared: Object = {"volumes": [{"name": "v", "emptyDir": {}}]}
    at_v: Object = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    yield job("init-containers-in-order", task(container("cat /v/log", **at_v), initContainers=[
        container("echo first >>/v/log; echo init out", "first", **at_v),
        container("echo second >>/v/log; echo init err >&2", "second", **at_v)], **shared))  # fmt: skip
    yield job("init-container-fails", task("echo never", initContainers=[
        container("echo broken >&2; exit 9", "first"), container("echo never", "second")]))  # fmt: skip
    yield job("init-container-retries", task("echo main", restartPolicy="OnFailure", initContainers=[
        container("[ -e /v/x ] || { touch /v/x; exit 1; }; echo second time", "first", **at_v)], **shared))  # fmt: skip
    yield job("sidecar", task("sleep 0.5; echo main done", initContainers=[
        container("trap 'echo asked to end; exit 0' TERM; echo up; while true; do sleep 0.1; done", "helper",
                  restartPolicy="Always")]))  # fmt: skip
    yield job("sidecar-that-fails-at-its-end", task("sleep 0.5", initContainers=[
        container("trap 'exit 5' TERM; while true; do sleep 0.1; done", "helper", restartPolicy="Always")]))  # fmt: skip
    yield one("restarted-once", "[ -e /v/x ] || { touch /v/x; echo failing; exit 1; }; echo worked", **at_v,
              pod={**shared, "restartPolicy": "OnFailure"})  # fmt: skip
    yield job("one-of-two-containers-fails", task(container("exit 0", "good"), container("exit 6", "bad")))
    yield job("both-containers-succeed", task(container("echo a", "a"), container("sleep 0.3; echo b", "b")))
    yield one("deadline-of-the-pod", "echo begun; sleep 300", pod={"activeDeadlineSeconds": 2})
    yield one("post-start-hook", "while [ ! -e /v/x ]; do sleep 0.05; done; cat /v/x", **at_v, pod=shared,
              lifecycle={"postStart": {"exec": {"command": ["busybox", "sh", "-c", "echo hook >/v/y; mv /v/y /v/x"]}}})  # fmt: skip
    yield one("post-start-hook-that-fails", "sleep 300",
              lifecycle={"postStart": {"exec": {"command": ["busybox", "false"]}}})  # fmt: skip
    yield one("startup-probe-that-fails", "trap 'exit 0' TERM; while true; do sleep 0.1; done", startupProbe={
        "exec": {"command": ["busybox", "false"]}, "periodSeconds": 1, "failureThreshold": 2})  # fmt: skip
    yield one("liveness-probe-that-fails", "trap 'echo ended; exit 3' TERM; while true; do sleep 0.1; done",
              livenessProbe={"exec": {"command": ["busybox", "false"]}, "periodSeconds": 1, "failureThreshold": 2})  # fmt: skip
    yield one("readiness-probe-that-passes", "sleep 2; echo done", readinessProbe={
        "exec": {"command": ["busybox", "true"]}, "periodSeconds": 1})  # fmt: skip


def _jobs() -> Iterator[Case]:
    restart_pod = [{"event": "PodFailed", "action": "RestartPod"}]
    yield job("all-tasks-succeed", task("echo a", name="a"), task("echo b", name="b", replicas=2))
    yield job("one-task-fails", task("echo a", name="a"), task("sleep 0.5; exit 3", name="b"))
    yield job("rank-fails", task("sleep 300", name="master"), task("exit 3", name="worker"),
              plugins={"pytorch": []})  # fmt: skip
    yield job("retries-are-used-up", task("exit 3", policies=restart_pod), maxRetry=2)
    yield job("job-restarts-until-it-fails", task("exit 3"), maxRetry=2,
              policies=[{"event": "PodFailed", "action": "RestartJob"}])  # fmt: skip
    yield job(
        "failure-completes-the-job",
        task("exit 3"),
        policies=[{"event": "PodFailed", "action": "CompleteJob"}],
    )
    yield job(
        "failure-aborts-the-job", task("exit 3"), policies=[{"event": "PodFailed", "action": "AbortJob"}]
    )
    yield job(
        "exit-code-terminates-the-job", task("exit 42"), policies=[{"exitCode": 42, "action": "TerminateJob"}]
    )
    yield job("first-task-completes-the-job", task("echo done", name="a", policies=[
        {"event": "TaskCompleted", "action": "CompleteJob"}]), task("sleep 300", name="b"), minAvailable=1)  # fmt: skip
    yield job("enough-successes", task("[ $VC_TASK_INDEX = 1 ] && exit 1; sleep 20", replicas=2), plugins={"env": []}, minSuccess=1,
              minAvailable=1)  # fmt: skip
    yield job("depends-on", task("echo first", name="a"),
              task("echo second", name="b", dependsOn={"name": ["a"]}), minAvailable=1)  # fmt: skip
    yield job("deadline-of-the-job", task("sleep 300"), activeDeadlineSeconds=2)
