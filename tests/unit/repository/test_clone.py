"""A checkout in a folder called ``ncubble`` does not shadow the package in its parent directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_installed_package_is_imported_beside_a_folder_of_its_name(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "ncubble" / "ncubble").mkdir(parents=True)
    show = "import ncubble, ncubble.kernels; print(ncubble.__file__, ncubble.kernels.__file__)"
    done = subprocess.run([sys.executable, "-c", show], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    package = repository / "ncubble"
    assert done.stdout.split() == [str(package / "__init__.py"), str(package / "kernels" / "__init__.py")], done.stderr
    assert not (repository / "__init__.py").exists()
