"""How a folder's modules are found by the record that each ends with: what extends the system is one file."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

from askance_protocol.errors import AskanceError

Record = TypeVar("Record")


def names(package: ModuleType) -> list[str]:
    """Names of a package's modules, sorted; nothing is loaded, and packages inside it do not count."""
    return sorted(module.name for module in iter_modules(package.__path__) if not module.ispkg)


def records(package: ModuleType, attribute: str, kind: type[Record]) -> Iterator[Record]:
    """The records of a package's modules, by file name; a module without one supports the others."""
    for name in names(package):
        found = getattr(import_module(f"{package.__name__}.{name}"), attribute, None)
        if isinstance(found, kind):
            yield found


def record(package: ModuleType, name: str, attribute: str, kind: type[Record]) -> Record:
    """The record of one module, loaded now; an error that names the file if there is none, or the file fails."""
    file = f"{package.__name__}.{name}"
    try:
        found = getattr(import_module(file), attribute, None)
    except AskanceError:
        raise
    except Exception as error:
        raise AskanceError(f"cannot be loaded: {type(error).__name__}", where=file, remedy="mend that file") from error
    if not isinstance(found, kind):
        raise AskanceError(f"does not end with its {attribute}", where=file, remedy="mend that file, or remove it")
    return found
