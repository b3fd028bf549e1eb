"""`vcjob convert`, as a user of Kubeflow types it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import vcjob as sdk
from tests.cli.conftest import Vcjob

PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: simple}
spec:
  runPolicy: {cleanPodPolicy: All}
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      restartPolicy: Never
      template: {spec: {containers: [{name: pytorch, image: a, command: [sh, -c, "echo rank $RANK of $WORLD_SIZE"]}]}}
    Worker: *replica
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pytorchjob.yaml"
    path.write_text(PYTORCHJOB)
    return path


def test_the_job_is_printed_and_what_was_left_out_is_listed(vcjob: Vcjob, file: Path) -> None:
    result = vcjob("convert", file)
    assert result.code == 0
    assert yaml.safe_load(result.out)["kind"] == "Job"
    assert result.err.startswith("note: spec.runPolicy.cleanPodPolicy `All` was left out")
    assert vcjob("convert", file, "-o", "json").json == yaml.safe_load(result.out)


def test_the_converted_job_runs_on_this_machine(vcjob: Vcjob, file: Path, own_home: None) -> None:
    converted = file.with_name("job.yaml")
    converted.write_text(vcjob("convert", file).out)
    assert vcjob("run", converted).code == 0
    lines = {line.text for line in sdk.find("simple").logs()}
    assert "rank 0 of 2" in lines


@pytest.mark.parametrize("verb", ["run", "validate", "render"])
def test_a_pytorchjob_where_a_job_belongs_names_the_verb_that_converts_it(
    vcjob: Vcjob, file: Path, verb: str
) -> None:
    result = vcjob(verb, file)
    assert result.code == 2 and "vcjob convert" in result.out + result.err


def test_a_job_that_is_not_valid_is_printed_with_its_problems(vcjob: Vcjob, file: Path) -> None:
    file.write_text(PYTORCHJOB.replace("image: a", "imge: a"))
    result = vcjob("convert", file)
    assert result.code == 2 and "imge" in result.err and "kind: Job" in result.out
