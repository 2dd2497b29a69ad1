"""Crash, let somebody edit, recover, compare. Every function says what went wrong, or nothing."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from releasekit.errors import ReleaseKitError
from releasekit.pins import Decision
from tests.crash import repository
from tests.crash.disks import CRASHED, DyingDisk, FailingDisk, RecordingDisk, Step, SteppingDisk
from tests.crash.repository import PIN, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.crash.implementations import Implementation

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)


@dataclass(slots=True)
class Tally:
    """What was tried and what failed."""

    images: set[str] = field(default_factory=set)
    tried: int = 0
    bad: list[str] = field(default_factory=list)

    def add(self, image: str, label: str, problems: list[str]) -> None:
        self.tried += 1
        self.images.add(image)
        self.bad += [f"{label}: {problem}" for problem in problems]

    def __str__(self) -> str:
        return f"{len(self.images)} distinct crash states ({self.tried} tried), {len(self.bad)} bad"


def differences(before: dict[str, Entry], root: Path, *, ignoring: str | None = None) -> list[str]:
    after = repository.snapshot(root)
    problems = [f"{path} appeared" for path in after.keys() - before.keys()]
    for path, entry in before.items():
        if path == ignoring:
            continue
        if path not in after:
            problems.append(f"{path} is gone")
        elif after[path].content != entry.content:
            problems.append(f"{path} holds {after[path].content!r}")
        elif after[path] != entry:
            problems.append(f"{path} differs: {after[path]} instead of {entry}")
    if (root / ".git" / "releasekit" / "pins").exists() and ignoring is None:
        problems.append("the journal was not emptied")
    return problems


def steps(implementation: Implementation, count: int, *, exchange: bool) -> list[str]:
    """The names of all steps of one undisturbed run."""
    with repository.repository(count) as root:
        disk = RecordingDisk(exchange=exchange)
        implementation.pin_and_restore(root, repository.edits(root), disk)
        return [step.name for step in disk.log]


def crash_points(names: list[str]) -> Iterator[tuple[int, str]]:
    for at, name in enumerate(names, start=1):
        torn = name in {"create", "overwrite"}
        for tear in DyingDisk.TEARS if torn else ("before",):
            yield at, tear


def dies(action: Callable[[], object]) -> bool:
    """Run it in a child of its own; whether the disk ended that child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, CRASHED}, f"the child failed with {code}"
    return code == CRASHED


def crash_everywhere(
    implementation: Implementation, tally: Tally, *, count: int, exchange: bool = True
) -> None:
    for at, tear in crash_points(steps(implementation, count, exchange=exchange)):
        with repository.repository(count) as root:
            before = repository.snapshot(root)
            crash(implementation, root, DyingDisk(at=at, tear=tear, exchange=exchange))
            image = repository.image(root, before)
            implementation.recover(root)
            label = f"{implementation.name}, step {at} {tear}"
            tally.add(image, label, differences(before, root))


def crash(implementation: Implementation, root: Path, disk: SteppingDisk) -> bool:
    edits = repository.edits(root)
    return dies(lambda: implementation.pin_and_restore(root, edits, disk))


def crash_recovery_everywhere(
    implementation: Implementation,
    tally: Tally,
    *,
    count: int,
    exchange: bool = True,
    every: int = 1,
) -> None:
    """Crash, crash again in every step of the recovery, recover."""
    points = list(crash_points(steps(implementation, count, exchange=exchange)))
    for at, tear in points[::every]:
        second = 1
        while True:
            with repository.repository(count) as root:
                before = repository.snapshot(root)
                crash(implementation, root, DyingDisk(at=at, tear=tear, exchange=exchange))
                disk = DyingDisk(at=second, exchange=exchange)
                died = dies(lambda: implementation.recover(root, disk))  # noqa: B023 - called here
                image = repository.image(root, before)
                implementation.recover(root)
                label = f"{implementation.name}, step {at} {tear}, then step {second} of recovery"
                tally.add(image, label, differences(before, root))
            if not died:
                break
            second += 1


# What somebody may do to a manifest while it may be pinned.


def _in_place(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        mode = path.stat().st_mode
        path.chmod(0o644)
        path.write_bytes(change(path.read_bytes()))
        path.chmod(mode)

    return edit


def _by_rename(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """As most editors save."""

    def edit(path: Path) -> None:
        draft = path.with_name("draft~")
        draft.write_bytes(change(path.read_bytes()))
        draft.rename(path)

    return edit


def _unpinned(content: bytes) -> bytes:
    return content.replace(PIN, b"")


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _to_symlink(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere.toml")


USER_EDITS: dict[str, Callable[[Path], None]] = {
    "append in place": _in_place(lambda text: text + b"# mine\n"),
    "append by rename": _by_rename(lambda text: text + b"# mine\n"),
    "append to the original": _by_rename(lambda text: _unpinned(text) + b"# mine\n"),
    "append to the original in place": _in_place(lambda text: _unpinned(text) + b"# mine\n"),
    "change the pinned requirement": _in_place(lambda text: text.replace(b'"core', b'"core[cli]')),
    "space the pin out": _in_place(lambda text: text.replace(b"==", b" == ")),
    "narrow the pin": _in_place(lambda text: text.replace(PIN, PIN + b",<2")),
    "drop the requirement": _by_rename(lambda text: _unpinned(text).replace(b'"core", ', b"")),
    "add a requirement beside it": _by_rename(lambda text: text.replace(b'"httpx"', b'"rich"')),
    "rename the project": _in_place(lambda text: text.replace(b'"package', b'"renamed')),
    "empty it": _in_place(lambda _: b""),
    "write the original back": _by_rename(_unpinned),
    "unrelated text": _by_rename(lambda _: b"[tool]\n"),
    "remove it": Path.unlink,
    "replace it by a symlink": _to_symlink,
    "replace it by a folder": _to_folder,
    "change its mode": lambda path: path.chmod(0o640),
    "touch it": os.utime,
}


def crash_and_edit(
    implementation: Implementation,
    tally: Tally,
    *,
    count: int = 3,
    every: int = 1,
    edited: int = 0,
) -> None:
    """Crash at a step, let somebody edit one of the files, recover."""
    for at, tear in list(crash_points(steps(implementation, count, exchange=True)))[::every]:
        for number, (kind, change) in enumerate(USER_EDITS.items()):
            with repository.repository(count) as root:
                before = repository.snapshot(root)
                crash(implementation, root, DyingDisk(at=at, tear=tear))
                victim = repository.manifests(root)[edited].relative_to(root)
                if not (root / victim).exists():
                    continue  # the naive one has lost it already
                problems = _edit_and_recover(
                    implementation,
                    root,
                    before,
                    str(victim),
                    change,
                    Decision.KEEP_MINE if (at + number) % 2 else Decision.USE_ORIGINAL,
                )
                label = f"{implementation.name}, step {at} {tear}, then somebody: {kind}"
                tally.add(problems[0], label, problems[1:])


def _edit_and_recover(
    implementation: Implementation,
    root: Path,
    before: dict[str, Entry],
    victim: str,
    change: Callable[[Path], None],
    decision: Decision,
) -> list[str]:
    """The image between edit and recovery, then the problems."""
    change(root / victim)
    edited = repository.snapshot(root).get(victim)
    image = repository.image(root, before)
    original = before[victim]
    committed = (root / ".git" / "releasekit" / "pins" / "intent.json").exists()
    try:
        recovery = implementation.recover(root)
    except OSError as error:
        return [image, f"recovery failed: {error}"]
    problems = differences(before, root, ignoring=victim)
    found = repository.snapshot(root).get(victim)
    content = edited.content if edited else None
    ours = content in {original.content, repository.pinned(_bytes(original.content))}
    if ours:
        if found is None or found.content != original.content:
            problems.append("the original did not come back")
        elif edited is not None and edited.mode & 0o777 != found.mode & 0o777:
            problems.append("somebody's chmod was lost")
        return [image, *problems]
    if found != edited:
        problems.append(f"somebody's edit was lost: {found}")
    if victim not in recovery.conflicts:
        if b"1.2.3" in _bytes(content or b"") or (content is None and committed):
            problems.append(f"a pin was kept without asking: {content!r}")
        return [image, *problems]
    expected = content if decision is Decision.KEEP_MINE else original.content
    return [image, *problems, *_decide(implementation, root, victim, decision, expected)]


def _decide(
    implementation: Implementation,
    root: Path,
    victim: str,
    decision: Decision,
    expected: bytes | str | None,
) -> list[str]:
    problems = []
    if victim not in implementation.recover(root).conflicts:
        problems.append("a conflict was forgotten")
    decided = implementation.recover(root, decision=decision)
    if (root / victim).is_dir():
        # Dropping a folder is not ours to decide: `--use-original` leaves the conflict.
        expected = None
    elif decided.conflicts:
        problems.append("a decision left a conflict")
    final = repository.snapshot(root).get(victim)
    if (final.content if final else None) != expected:
        problems.append(f"{decision} left {final}")
    return problems


def _bytes(content: bytes | str) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def fail_everywhere(implementation: Implementation, tally: Tally, *, count: int) -> None:
    """Every step fails, once and for good, with every error."""
    for exchange in (True, False):
        total = len(steps(implementation, count, exchange=exchange))
        for at in range(1, total + 1):
            for number in ERRORS:
                for forever in (False, True):
                    label = f"step {at} {errno.errorcode[number]} forever={forever}"
                    disk = FailingDisk(at=at, number=number, forever=forever, exchange=exchange)
                    with repository.repository(count) as root:
                        problems = _fail(implementation, root, disk)
                        tally.add(label + str(exchange), label, problems)


def _fail(implementation: Implementation, root: Path, disk: FailingDisk) -> list[str]:
    before = repository.snapshot(root)
    problems = []
    try:
        implementation.pin_and_restore(root, repository.edits(root), disk)
    except ReleaseKitError as error:
        if not error.hint:
            problems.append(f"no hint: {error}")
    else:
        problems.append("a failure went unnoticed")
    implementation.recover(root)
    return problems + differences(before, root)


# A power cut: what was not synced may be lost.


def power_cuts(
    implementation: Implementation,
    tally: Tally,
    *,
    count: int,
    exchange: bool = True,
    synced: bool = True,
    samples: int = 0,
) -> None:
    """Replay every prefix of the steps with every loss that the syncs allow.

    Entries of folders last in order up to a crash; content that was not synced may be missing
    or zeroed. `samples` adds random orders, as a filesystem without a journal may choose.
    """
    with repository.repository(count) as root:
        disk = RecordingDisk(exchange=exchange)
        implementation.pin_and_restore(root, repository.edits(root), disk)
        log = [_relative(step, root) for step in disk.log]
    if not synced:
        log = [step for step in log if step.name != "sync"]
    chance = random.Random(5)  # noqa: S311 - reproducible
    for cut in range(len(log) + 1):
        for last in range(_durable(log, cut), cut + 1):
            for damage in ("none", "empty", "zeros"):
                lost = set(range(last, cut))
                _replay(implementation, tally, log[:cut], lost, damage, count)
        loose = range(_durable(log, cut), cut)
        for _ in range(samples if len(loose) > 1 else 0):
            lost = {index for index in loose if chance.random() < 0.5}
            damage = chance.choice(["none", "zeros"])
            _replay(implementation, tally, log[:cut], lost, damage, count, in_order=False)


def _relative(step: Step, root: Path) -> Step:
    arguments = tuple(
        argument.relative_to(root) if isinstance(argument, Path) else argument
        for argument in step.arguments
    )
    return Step(name=step.name, arguments=arguments)


def _durable(log: list[Step], cut: int) -> int:
    """How many first steps a power cut cannot undo: entries of a synced folder, and all before."""
    durable = 0
    for index, step in enumerate(log[:cut]):
        if step.name == "sync":
            for earlier in range(index, -1, -1):
                touched = [path.parent for path in log[earlier].arguments if isinstance(path, Path)]
                if log[earlier].name != "sync" and step.arguments[0] in touched:
                    durable = max(durable, earlier + 1)
                    break
    return durable


def _replay(
    implementation: Implementation,
    tally: Tally,
    log: list[Step],
    lost: set[int],
    damage: str,
    count: int,
    *,
    in_order: bool = True,
) -> None:
    synced = {step.arguments[0] for step in log if step.name == "sync"}
    with repository.repository(count) as root:
        before = repository.snapshot(root)
        (root / ".git" / "releasekit").mkdir()
        disk = SteppingDisk()
        for index, step in enumerate(log):
            if index in lost or step.name == "sync":
                continue
            arguments = [
                root / argument if isinstance(argument, Path) else argument
                for argument in step.arguments
            ]
            if step.name == "create" and step.arguments[0] not in synced and damage != "none":
                arguments[1] = b"" if damage == "empty" else bytes(len(step.arguments[1]))
            try:
                getattr(disk, step.name)(*arguments)
            except OSError:
                continue  # it needed an entry that was lost
        image = repository.image(root, before)
        try:
            implementation.recover(root)
            problems = differences(before, root)
            if not in_order:  # an inode may be lost with its entry; the text must not be
                problems = [problem for problem in problems if " differs: " not in problem]
        except ReleaseKitError as error:
            problems = [str(error)]
        label = f"{implementation.name}, power cut after {len(log)}, lost {sorted(lost)}, {damage}"
        tally.add(image, label, problems)
