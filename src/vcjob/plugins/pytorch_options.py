"""The arguments of the pytorch plugin: parsing and checks of their values.

The plugin, the lifecycle, the diagnosis and the SDK read the arguments through `parse_options`. It returns options
for any arguments, together with the problems; only admission reports those. `FLAGS` is also the source of the
reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from vcjob.plugins.goflags import Flag, Flags, parse_flags, parse_int
from vcjob.plugins.wait import DEFAULT_IMAGE
from vcjob.spec.problem import Problem, error, warning
from vcjob.spec.wording import show

FLAGS = (
    Flag("master", "string", "master", meaning="The task that contains rank 0."),
    Flag("worker", "string", "worker", meaning="The task that contains the other ranks."),
    Flag("port", "int", 23456, meaning="The port of rank 0, opened in every container."),
    Flag("wait-master-enabled", "bool", False, meaning="Workers wait for the master in an init container."),
    Flag(
        "wait-master-timeout",
        "int",
        300,
        meaning="Seconds to wait for the master. Only with `--wait-master-enabled`.",
    ),
    Flag(
        "wait-master-image",
        "string",
        DEFAULT_IMAGE,
        meaning="Image of the init container; `self` is the worker's own image. Only with `--wait-master-enabled`.",
    ),
    Flag(
        "wait-master-set-user",
        "bool",
        True,
        ours=True,
        meaning="Run the init container as user 65534 if the pod names no user. Only with `--wait-master-enabled`.",
    ),
    Flag(
        "nproc-per-node",
        "string",
        "",
        ours=True,
        meaning="Processes that `torchrun` starts in each pod: a number, `gpu`, `cpu`, or `auto` (GPUs, or cores where there "
        "are none). Sets `PET_*` variables.",
    ),
    Flag(
        "disable-istio-sidecar",
        "bool",
        False,
        ours=True,
        meaning="Turn the injection of Istio's sidecar off for the pods of the Job.",
    ),
    Flag(
        "local-rank",
        "bool",
        True,
        ours=True,
        meaning="Set `LOCAL_RANK=0` and `LOCAL_WORLD_SIZE=1` in pods that run one rank.",
    ),
    Flag(
        "flight-recorder",
        "bool",
        False,
        ours=True,
        meaning="Record the collectives of every rank, so that `vcjob why` names a rank that hangs. On this machine they "
        "are always recorded.",
    ),
)
MAX_PORT = 65535
#: 68 years; the wait program counts hundredths of a second in 64 bits.
MAX_TIMEOUT = 2**31 - 1
#: torchrun counts GPUs or cores itself; auto means GPUs where there are any.
COUNTED_BY_TORCHRUN = ("auto", "gpu", "cpu")


class PytorchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the plugin. `given` has the position in the list of each argument that the user wrote.

    `parse_options` makes it, also from arguments with errors; problems name the argument by its position.
    """

    master: str = "master"
    worker: str = "worker"
    port: int = 23456
    wait_master_enabled: bool = False
    wait_master_timeout: int = 300
    wait_master_image: str = DEFAULT_IMAGE
    wait_master_set_user: bool = True
    nproc_per_node: str = ""
    disable_istio_sidecar: bool = False
    local_rank: bool = True
    flight_recorder: bool = False
    given: Mapping[str, int] = {}

    @property
    def homogeneous(self) -> bool:
        """Whether one task has all ranks: replica i is rank i, and replica 0 is the master."""
        return self.master == self.worker


def parse_options(arguments: Sequence[str]) -> tuple[PytorchOptions, list[Problem]]:
    read, problems = parse_flags(FLAGS, arguments)
    problems += _bad_values(read)
    problems += _without_effect(read)
    nproc = read.text("nproc-per-node")
    options = PytorchOptions(
        master=read.text("master"),
        worker=read.text("worker"),
        port=read.integer("port"),
        wait_master_enabled=read.boolean("wait-master-enabled"),
        wait_master_timeout=read.integer("wait-master-timeout"),
        wait_master_image=read.text("wait-master-image"),
        wait_master_set_user=read.boolean("wait-master-set-user"),
        nproc_per_node=nproc if nproc in COUNTED_BY_TORCHRUN else str(parse_int(nproc) or ""),
        disable_istio_sidecar=read.boolean("disable-istio-sidecar"),
        local_rank=read.boolean("local-rank"),
        flight_recorder=read.boolean("flight-recorder"),
        given=dict(read.places),
    )
    return options, problems


def _bad_values(read: Flags) -> Iterator[Problem]:
    port = read.integer("port")
    if not 1 <= port <= MAX_PORT:
        yield error(
            read.where("port"),
            f"`--port={port}` is not a port: it must be 1 to {MAX_PORT}",
            "write --port=23456",
        )
    timeout = read.integer("wait-master-timeout")
    if not 1 <= timeout <= MAX_TIMEOUT:
        yield error(
            read.where("wait-master-timeout"),
            f"`--wait-master-timeout={timeout}` must be 1 to {MAX_TIMEOUT} seconds",
            "write --wait-master-timeout=300",
        )
    image = read.text("wait-master-image")
    if not image or any(letter.isspace() for letter in image):
        yield error(
            read.where("wait-master-image"),
            f"`--wait-master-image={show(image)}` is not an image",
            f"write --wait-master-image={DEFAULT_IMAGE}, or =self to use the image of the worker",
        )
    nproc = read.text("nproc-per-node")
    if "nproc-per-node" in read.places and nproc not in COUNTED_BY_TORCHRUN and (parse_int(nproc) or 0) < 1:
        yield error(
            read.where("nproc-per-node"),
            f"`--nproc-per-node={show(nproc)}` must be a number of at least 1, auto, gpu or cpu",
            "write --nproc-per-node=auto",
        )


def _without_effect(read: Flags) -> Iterator[Problem]:
    if read.boolean("wait-master-enabled"):
        return
    for name in ("wait-master-timeout", "wait-master-image", "wait-master-set-user"):
        if name in read.places:
            yield warning(
                read.where(name),
                f"`--{name}` has no effect without `--wait-master-enabled`",
                "add --wait-master-enabled=true",
            )
