"""Make the packages of an image smaller: without what no stage runs, with bytecode of what stages import.

    python infra/images/trim.py packages SITE_PACKAGES [STRIP]      remove libraries' tests and headers, and symbols
    python infra/images/trim.py imports CODE                        print the modules of others that the code imports
    python infra/images/trim.py bytecode SITE_PACKAGES IMPORTS      compile what these load, bound to no file time;
                                                                exits 1 if one of them is there and cannot be imported

What is left keeps its content; shared libraries lose only the symbols that no program resolves, by binutils' strip.
"""

from __future__ import annotations

import ast
import importlib
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from py_compile import PycInvalidationMode, PyCompileError, compile

UNUSED = (
    "**/tests",
    "*/include",
    "torch/test",
    "torch/bin/*test*",
    "torch/bin/*Test*",
    "torch/bin/protoc*",
    "torch/bin/*.pt*",
    "torch/lib/*_test.so",
    # Arrow's RPC, which loads only when asked for and which no other library links to
    "pyarrow/*flight*",
    "pyarrow/_pyarrow_cpp_tests*",
)
"""Patterns below site-packages. Packages named `testing` stay: numpy, pandas, sympy and torch import their own."""
WORTH = 2**16
"""Bytes from which on a library may hold symbols worth cutting out."""


def remove_unused(site: Path) -> int:
    """Remove what no stage runs; return how many bytes that were."""
    freed = 0
    for path in [path for pattern in UNUSED for path in site.glob(pattern)]:
        files = [path] if path.is_file() or path.is_symlink() else path.rglob("*")
        freed += sum(file.lstat().st_size for file in files if not file.is_dir())
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return freed


def strip(site: Path, tool: str) -> int:
    """Cut symbols that no program resolves out of libraries; return how many bytes that were.

    A library without such symbols is not written: it may be of a lower layer, and would be in this one, too.
    Raises subprocess.CalledProcessError when `tool` refuses a library.
    """
    freed = 0
    for path in sorted(site.rglob("*.so*")):
        before = path.stat().st_size
        # what lies in NAME.libs was changed by auditwheel in a way that strip may break
        if before > WORTH and path.is_file() and not path.is_symlink() and path.parent.suffix != ".libs":
            stripped = path.with_name(f"{path.name}.stripped")
            subprocess.run([tool, "--strip-unneeded", "-o", stripped, path], check=True)
            if stripped.stat().st_size < before:
                freed += before - stripped.stat().st_size
                stripped.replace(path)
            else:
                stripped.unlink()
    return freed


def imports(code: Path) -> set[str]:
    """Return the modules of others that the code's files import, also inside functions."""
    own = {path.name for path in code.iterdir()}
    found: set[str] = set()
    for path in code.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] not in own}


def broken(names: Iterable[str]) -> dict[str, str]:
    """Import modules; return module -> what is wrong with each that is there and cannot be imported.

    What is not there is passed over: an optional package, or a name that was imported from a module and is none.
    """
    wrong: dict[str, str] = {}
    for name in sorted(names):
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            except Exception as error:
                wrong[name] = f"{type(error).__name__}: {error}"
    return wrong


def sources(site: Path) -> Iterator[Path]:
    """Yield the source file below `site` of each module that is loaded."""
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.suffix == ".py" and path.is_relative_to(site):
            yield path


def main(arguments: list[str]) -> int:
    """Trim the packages, or write the bytecode."""
    match arguments:
        case ["packages", site, *tool] if len(tool) < 2:
            freed = remove_unused(Path(site)) + sum(strip(Path(site), name) for name in tool)
            print(f"{freed / 1e6:.0f} MB removed from {site}")
        case ["imports", code]:
            print("\n".join(sorted(imports(Path(code)))))
        case ["bytecode", site, names]:
            if wrong := broken(Path(names).read_text().split()):
                print(*(f"{name}: {text}" for name, text in wrong.items()), sep="\n", file=sys.stderr)
                return 1
            paths = set(sources(Path(site)))
            for path in paths:
                with suppress(PyCompileError):
                    compile(str(path), doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
            print(f"{len(paths)} modules compiled")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
