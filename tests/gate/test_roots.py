from __future__ import annotations

import pytest

from cudagraph_doctor.gate.roots import find_roots, path_from
from cudagraph_doctor.report import Roots

HERE, WINDOWS = Roots("/repo/sub", "/repo"), Roots("C:\\repo\\sub", "C:\\repo")


@pytest.mark.parametrize(
    ("root", "roots", "file", "path"),
    [
        ("/repo", HERE, "a.py", "sub/a.py"),
        ("/repo", HERE, "./x/../a.py", "sub/a.py"),
        ("/repo", HERE, "../b.py", "b.py"),
        ("/repo/sub", HERE, "a.py", "a.py"),
        ("/repo/sub", HERE, "../b.py", "../b.py"),
        ("/repo", HERE, "/repo/x/c.py", "x/c.py"),
        ("/repo", HERE, "/other/c.py", "/other/c.py"),
        ("/repo", HERE, "site:torch/x.py", "site:torch/x.py"),
        ("/", Roots("/", "/"), "a.py", "a.py"),
        ("C:\\repo", WINDOWS, "a.py", "sub/a.py"),
        ("C:\\repo", WINDOWS, "pkg/a.py", "sub/pkg/a.py"),
        ("", Roots(), "a.py", "a.py"),
        ("/repo", HERE, "", ""),
    ],
)
def test_paths_from_the_configurations_folder(root, roots, file, path):
    assert path_from(root, roots, file) == path


def test_the_repository_is_where_git_is_else_the_project_else_here(tmp_path):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("")
    assert find_roots(str(deep)) == Roots(str(deep), str(tmp_path / "a"))
    (tmp_path / ".git").write_text("gitdir: elsewhere")  # a worktree has a file
    assert find_roots(str(deep)) == Roots(str(deep), str(tmp_path))
