"""Loaded by Python at its start, because the launcher puts this folder on PYTHONPATH.

It waits for the import of torch.distributed and starts the agent then; a program without torch runs as if this file did
not exist. The folder is taken off sys.path at once, and another sitecustomize, if there is one, is loaded as usual.
"""

import os
import sys

TYPE_CHECKING = False  # as in typing, which takes time to import
if TYPE_CHECKING:
    from types import ModuleType

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_TORCH = "torch.distributed.distributed_c10d"


class _WaitForTorch:
    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == _TORCH:
            sys.meta_path.remove(self)
            start_agent()


def start_agent() -> None:
    try:
        # On the machine of a local job the supervisor samples the process; a second observer would disturb it.
        sample = None if "VCJOB_RUN_UID" in os.environ else load("activity").sample
        load("agent").start(os.environ["VCJOB_RANK_STATE"], sample)
    except Exception:  # noqa: S110 - the user's program comes first
        pass


def load(name: str) -> "ModuleType":
    """A file next to this one, as a module that no import of the program finds or replaces."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"_vcjob_{name}", os.path.join(_FOLDER, f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install() -> None:
    """Start the agent now if torch.distributed is loaded, else when it is."""
    if os.environ.get("VCJOB_RANK_STATE"):
        if _TORCH in sys.modules:
            start_agent()
        else:
            sys.meta_path.insert(0, _WaitForTorch())


def _load_the_next() -> None:
    """Load the sitecustomize that this file hides."""
    sys.path[:] = [folder for folder in sys.path if folder != _FOLDER]
    own = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found,unused-ignore]  # noqa: F401 - another file than this one
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault(__name__, own)


if __name__ == "sitecustomize":
    install()
    _load_the_next()
