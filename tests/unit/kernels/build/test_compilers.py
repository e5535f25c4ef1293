"""Installed versions of nvcc: where they are looked for, their order, and what a range of them
is."""

from pathlib import Path

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import compilers
from ncubble.kernels.build.compilers import NvccRelease, release_of, releases, releases_between


def install(root, version):
    """A program at ``root/bin/nvcc`` that says its version as nvcc does."""
    nvcc = root / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    short = ".".join(version.split(".")[:2])
    lines = f"Cuda compilation tools, release {short}, V{version}\nBuild cuda_{short}.r{short}/compiler.1_0"
    nvcc.write_text(f"#!/bin/sh\ncat <<'END'\nnvcc: NVIDIA (R) Cuda compiler driver\n{lines}\nEND\n")
    nvcc.chmod(0o755)
    return nvcc


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Toolkits in three kinds of places, and no other."""
    monkeypatch.setattr(compilers, "_ROOTS", (str(tmp_path / "cuda-*" / "bin"),))
    monkeypatch.setattr(compilers, "wheel_folders", lambda: iter([tmp_path / "wheel" / "bin"]))
    monkeypatch.setattr(compilers.Path, "home", lambda: tmp_path / "home")
    for name in ("CUDA_HOME", "CUDA_PATH", "MAMBA_ROOT_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    for root, version in (
        ("cuda-12.10", "12.10.2"),
        ("cuda-12.9", "12.9.86"),
        ("wheel", "13.0.88"),
        ("conda/envs/old", "12.8.93"),
        ("home/miniforge3/envs/new", "13.2.1"),
    ):
        install(tmp_path / root, version)
    install(tmp_path / "cuda-again", "12.9.86")
    broken = tmp_path / "cuda-broken" / "bin" / "nvcc"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    return tmp_path


def test_all_places_are_looked_through_and_versions_are_numbers(machine):
    assert [release.text for release in releases()] == ["12.8.93", "12.9.86", "12.10.2", "13.0.88", "13.2.1"]
    own = install(machine / "own", "12.9.41")
    for named in (own, own.parent, machine / "own"):
        assert "12.9.41" in [release.text for release in releases([named])]
    with pytest.raises(UsageError, match="not an nvcc that reports its version"):
        releases([machine / "cuda-broken"])


@pytest.mark.parametrize(
    ("good", "bad", "names"),
    [
        ("12.8", "13.0", ["12.8.93", "12.9.86", "12.10.2", "13.0.88"]),
        ("12", "13", ["12.8.93", "12.9.86", "12.10.2", "13.0.88", "13.2.1"]),
        ("13.0", "12.9", ["13.0.88", "12.10.2", "12.9.86"]),
        ("13.0.88", "13.2.1", ["13.0.88", "13.2.1"]),
    ],
)
def test_a_range_goes_from_one_end_to_the_other(machine, good, bad, names):
    assert [release.text for release in releases_between(releases(), good, bad)] == names


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [("12.7", "13.0", "no nvcc 12.7 was found"), ("13.0", "13.0", "both are 13.0.88"), ("x", "13.0", "is no version")],
)
def test_an_end_that_is_not_there_is_named(machine, good, bad, says):
    with pytest.raises(UsageError, match=says) as refused:
        releases_between(releases(), good, bad)
    assert "12.8.93" in refused.value.remedy or "write nvcc" in refused.value.remedy


def test_its_environment_is_found_by_name_by_home_and_by_cmake(machine):
    release = next(item for item in releases() if item.text == "12.10.2")
    env = release.environment({"PATH": "/bin"})
    assert env["PATH"] == f"{machine / 'cuda-12.10' / 'bin'}:/bin"
    assert env["CUDA_HOME"] == str(machine / "cuda-12.10")
    assert env["CUDACXX"] == env["NVCC"] == str(release.nvcc)


def test_the_real_nvcc_of_this_environment_tells_its_version():
    folders = [folder for folder in compilers.wheel_folders() if (folder / "nvcc").is_file()]
    assert folders, "the extra nvcc is part of dev"
    release = release_of(folders[0] / "nvcc")
    assert isinstance(release, NvccRelease) and release.version >= (12,)
    assert release_of(Path("/bin/true")) is None
