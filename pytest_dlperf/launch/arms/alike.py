"""Makes alike, for both arms of a pair, what one folder adds to a program and another does not.

The length of paths and of the environment moves what a program keeps in memory, and by that its
speed (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!", ASPLOS
2009, https://doi.org/10.1145/1508244.1508275).
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.util
import os
import uuid
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_dlperf.core.arm import ReadyArm, Tree
from pytest_dlperf.core.errors import CaseError

#: Begins the name of the repository's own tree beside the trees of other commits.
_NAME: Final = "working-tree"


def with_path_as_long(arm: ReadyArm, longer: ReadyArm) -> ReadyArm:
    """Return ``arm`` with paths of the repository as long as those in the tree of ``longer``.

    They lead to the same files, by a link beside that tree. Unchanged where ``longer`` has no
    tree, or ``arm`` has one. Raises ``CaseError`` if the link cannot be made.
    """
    if arm.tree is not None or longer.tree is None:
        return arm
    tree = Path(longer.tree.arm)
    # Repositories that share the folder of trees have one each
    digest = hashlib.sha256(longer.tree.head.encode()).hexdigest()
    link = tree.with_name(f"{_NAME}-{digest}"[: len(tree.name)])
    try:
        if not link.is_symlink() or os.readlink(link) != longer.tree.head:
            partial = link.with_name(uuid.uuid4().hex)
            partial.symlink_to(longer.tree.head, target_is_directory=True)
            partial.replace(link)
    except OSError as error:
        raise CaseError(f"cannot make {link}: {error.strerror}") from error
    return replace(arm, tree=Tree(head=longer.tree.head, arm=str(link)))


def compile_alike(trees: Sequence[Path], modules: Iterable[str]) -> None:
    """Give all ``trees`` byte code of those ``modules`` that one of them has byte code of.

    Byte code of this interpreter. Each file is read, so that none is read from the disk later. A
    module that cannot be compiled is left to the ranks, which say why. Raises ``CaseError`` for
    one that cannot be read.
    """
    for module in modules:
        files = [tree / module for tree in trees if (tree / module).is_file()]
        if not any(Path(importlib.util.cache_from_source(str(path))).exists() for path in files):
            continue
        for file in files:
            try:
                file.read_bytes()
            except OSError as error:
                raise CaseError(f"cannot read {file}: {error.strerror}") from error
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compileall.compile_file(file, quiet=2)
