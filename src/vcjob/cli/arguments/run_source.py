"""What `vcjob run` starts and `vcjob render` shows: the Jobs of a file, changed by options, or the Job of a script.

Both verbs build a `RunSource` from their arguments and call `load`, so they always agree. UserError for options that
do not fit together, InvalidJob for a Job with errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vcjob.cli.arguments.options import path_of
from vcjob.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vcjob.cli.arguments.script_options import ScriptOptions
    from vcjob.sdk.loading import Loaded
    from vcjob.spec.job import BackendName


class RunSource(NamedTuple):
    """The command line of `run` or `render`, as far as it says what to run.

    The verb fills it in, and `load` returns the Jobs. It reads the file only then, and knows no backend but its name.
    """

    target: str
    arguments: Sequence[str]
    script: ScriptOptions
    images: Sequence[str]
    sets: Sequence[str]
    env: Sequence[str]
    job: str | None
    allow_unknown: bool

    @property
    def is_script(self) -> bool:
        return self.script.module or self.target.endswith(".py")

    @property
    def image_commands(self) -> Sequence[str]:
        """The commands that stand for images; for a script, `--image` is the image of its pods instead."""
        return () if self.is_script else self.images

    @property
    def changed(self) -> bool:
        """Whether the Job is not the one in the file."""
        return bool(self.is_script or self.sets or self.env or self.arguments)

    def load(self, on: BackendName | None, stored: Mapping[str, Any] | None = None) -> Loaded:
        """The Jobs, checked for that backend; `stored` is a Job in place of the file."""
        from vcjob.sdk.loading import check_image_commands, load

        overrides = None
        if self.sets or self.env or self.arguments:
            from vcjob.sdk.authoring.overrides import Overrides, parse_env

            to_program = () if self.is_script else self.arguments
            overrides = Overrides(self.sets, parse_env(self.env), to_program, self.job)
        loaded = load(
            self._script_job(on) if self.is_script else stored or path_of(self.target),
            allow_unknown=self.allow_unknown,
            backend=on,
            overrides=overrides,
        )
        # Only now: a file that does not exist, or is a shell script or a notebook, is no Job file.
        if not self.is_script and self.script.given():
            raise UserError(
                f"{self.script.given()[0]} is for a Python script, and {self.target} is a Job file",
                hint="change a field of the Job with --set, such as --set 'spec.tasks[1].replicas=4'",
            )
        check_image_commands(loaded.select(self.job), self.image_commands)
        return loaded

    def _script_job(self, on: BackendName | None) -> dict[str, Any]:
        from vcjob.sdk.authoring.scripting import script_job

        if len(self.images) > 1 or any("=" in image for image in self.images):
            raise UserError(
                f"--image {self.images[-1]}: a script runs in one image",
                hint="give the name of the image, without a command",
            )
        module = self.script.module
        return script_job(
            None if module else self.target,
            module=self.target if module else None,
            args=self.arguments,
            image=self.images[0] if self.images else None,
            on=on,
            **self.script.arguments(),
        )
