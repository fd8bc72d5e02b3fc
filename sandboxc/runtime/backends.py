"""The two Linux backends behind one face: make a plan, say what it would run, run it.

A backend that turns out unusable before the command has started raises ``Unusable``; the chain then goes on. What
starts the command is the very sandbox that the run asks for, so the start itself is the probe: nothing is
assumed from a version number or from another set of namespaces.
"""

import os
import stat
from collections.abc import Mapping, Sequence

from sandboxc.diagnostics import Diagnostic, error, has_errors
from sandboxc.facts import Facts
from sandboxc.layers import RANK
from sandboxc.losses import NARROWER, Loss, enforcement
from sandboxc.policy import Waiver
from sandboxc.records import NamedTuple, Protocol
from sandboxc.runtime.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandboxc.emitters.bwrap.finalise import Host
    from sandboxc.emitters.bwrap.plan import BwrapPlan

CAP_DAC_OVERRIDE = 1 << 1  # capabilities(7)
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"  # where PATH is not set, as shells have it


class Unusable(Exception):
    """This backend cannot hold this run on this host; the text says why. The command has not run."""


class Stale(Exception):
    """What the survey saw has changed; survey again."""


class Refused(Exception):
    """The policy is refused on this host; the command has not run."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(item.message for item in diagnostics))


class Ended(NamedTuple):
    """What became of a command: the code to pass on, whether it ran, and what to say where it did not."""

    code: int
    started: bool
    message: str = ""
    occupied: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


class Backend(Protocol):
    """One planned run on one backend."""

    target: str
    losses: tuple[Loss, ...]
    diagnostics: tuple[Diagnostic, ...]

    def words(self, command: Sequence[str]) -> list[str]:
        """Return what would be spawned, for a person."""

    def applied(self) -> dict[str, object]:
        """Return what the record says of the backend."""

    def expected(self) -> tuple[Loss, ...]:
        """Return what compiling for this very host would list; a profile was compiled for assumed facts."""

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> Ended:
        """Run the command.

        Raises:
            Unusable, Stale: the command has not run.
        """


class Bwrap:
    """A run under bubblewrap."""

    target = "bwrap"

    def __init__(self, session: Session, environ: Mapping[str, str]) -> None:
        from sandboxc.emitters.bwrap.finalise import Host
        from sandboxc.runtime.bwrap_runner import RunnerError, find_runner, proc_covers

        self._session = session
        try:
            places = [session.cwd, *(session.values[name] for name in ("workspace", "tmp"))]
            search = environ.get("PATH") or DEFAULT_PATH
            self._runner = find_runner(search, session.resolved.access, os.geteuid(), places)
        except RunnerError as fault:
            raise Unusable(str(fault)) from None
        # Every mask that can be is made late: on the very node that the survey saw. bwrap goes by the name once
        # more, and meanwhile another run may have moved the directory and put one with a decoy there.
        options = self._runner.options
        self._host = Host(session.cwd, "--disable-userns" in options, late_from=1, covers=proc_covers())
        self._plan()

    def _plan(self) -> None:
        self.plan = self._planned(self._host)
        self.losses = self.plan.losses
        self.diagnostics = self.plan.diagnostics

    def _planned(self, host: "Host") -> "BwrapPlan":
        from sandboxc.emitters.bwrap.finalise import finalise

        session = self._session
        return finalise(session.resolved, host_facts(), session.subject.options, host)

    def words(self, command: Sequence[str]) -> list[str]:
        """Return words that make the same mounts, with binds by path and none left for later but pinned links."""
        from sandboxc.emitters.bwrap.plan import by_path, groups

        plan = self._planned(self._host._replace(late_from=0))
        return [self._runner.path, *(w for group in groups(plan, by_path) for w in group), "--", *command]

    def applied(self) -> dict[str, object]:
        """Return the runner and what was mounted late."""
        return {
            "runner": self._runner.path,
            "mounts": len(self.plan.ops),
            "late_mounts": len(self.plan.steps),
            "occupied": [item.path for item in self.plan.occupants],
        }

    def expected(self) -> tuple[Loss, ...]:
        """Return the losses of the stack under the facts of this host."""
        from sandboxc.emitters.bwrap.capability import table
        from sandboxc.emitters.bwrap.losses import stack_losses

        return stack_losses(self._session.subject.stack, table(host_facts()))

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> Ended:
        """Run the command; where the sandbox does not come up, find out why."""
        from sandboxc.runtime.bwrap import run_bwrap

        session = self._session
        outcome = run_bwrap(self._runner, self.plan, command, env=env, state_dir=session.state, temp=session.temp)
        if outcome.started or outcome.stage in ("lookup", "exec", "cwd", "signal"):
            message = f"{outcome.message}; pass `--cwd DIR`" if outcome.stage == "cwd" else outcome.message
            return Ended(outcome.code, outcome.started, message, outcome.occupied, outcome.left)
        if outcome.stage == "stale":
            raise Stale(outcome.message)
        if outcome.stage in ("spawn", "setup") and self._explain():
            return self.run(command, env)
        raise Unusable(outcome.message)

    def _explain(self) -> bool:
        """Return whether another set of options works here.

        Raises:
            Unusable: nothing does.
        """
        from sandboxc.runtime.bwrap_runner import probe

        session = self._session
        found = probe(
            self._runner,
            network=session.resolved.network,
            directory=session.values["workspace"],
            scope_abstract=self.plan.scope_abstract,
        )
        if not found.usable:
            raise Unusable(found.reason)
        if found.disable_userns == self._host.disable_userns:
            return False
        self._host = self._host._replace(disable_userns=found.disable_userns)
        self._plan()
        return True


class Landlock:
    """A run under Landlock, applied by this package in the child before it executes the command."""

    target = "landlock"

    def __init__(self, session: Session, environ: Mapping[str, str]) -> None:
        from sandboxc.emitters.landlock.finalise import finalise
        from sandboxc.runtime.landlock import machine

        self._session = session
        self._arch = machine()
        facts = host_facts()
        if not facts.landlock_abi:
            raise Unusable("this kernel has no Landlock, or it is not enabled")
        if not self._arch:
            raise Unusable(f"there is no system call filter for {os.uname().machine}")
        self.plan = finalise(session.resolved, session.look, facts, session.subject.options)
        self.losses = self.plan.losses
        self.diagnostics = self.plan.diagnostics

    def words(self, command: Sequence[str]) -> list[str]:
        """Return the rule set, line by line, and the command."""
        return [*self.plan.text().splitlines(), "--", *command]

    def applied(self) -> dict[str, object]:
        """Return the ABI and the number of rules."""
        return {"abi": self.plan.abi, "rules": len(self.plan.rules)}

    def expected(self) -> tuple[Loss, ...]:
        """Return the losses of the stack under the facts of this host."""
        from sandboxc.emitters.landlock.capability import table
        from sandboxc.emitters.landlock.plan import stack_losses

        subject = self._session.subject
        return stack_losses(subject.stack, table(host_facts()), subject.options)

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> Ended:
        """Run the command with the private temp directory, if any, journaled around it."""
        from sandboxc.runtime import occupants
        from sandboxc.runtime.landlock import execute

        _check_unmoved(self._session)

        session = self._session
        held = None
        try:
            if session.temp:
                held = occupants.occupy(session.state, ())
                base, _, name = session.temp.rpartition("/")
                occupants.temporary(session.state, held, base, name=name)
                self._add_temp()
            outcome = execute(
                self.plan.ruleset(),
                command,
                env=env,
                cwd=session.cwd,
                seccomp_program=self.plan.seccomp(self._arch),
                keep_capabilities=_needed_capabilities(session),
            )
        except OSError as fault:
            raise Unusable(str(fault)) from None
        finally:
            left = occupants.release(session.state, held).kept if held is not None else ()
        if not outcome.started and outcome.stage == "setup":
            raise Unusable(outcome.message)
        return Ended(outcome.code, outcome.started, outcome.message, (), left)

    def _add_temp(self) -> None:
        """Add the rule of the private temp directory, which was made after the survey."""
        from sandboxc import landlock_abi
        from sandboxc.emitters.landlock.finalise import Rule

        found = os.lstat(self._session.temp)
        if not stat.S_ISDIR(found.st_mode):
            raise Unusable(f"`{self._session.temp}` is not a directory")
        if any(rule.path == self._session.temp for rule in self.plan.rules):
            return
        rights = landlock_abi.write_rights(self.plan.abi)
        rule = Rule(self._session.temp, "directory", rights, found.st_dev, found.st_ino)
        self.plan = self.plan._replace(rules=(*self.plan.rules, rule))


BACKENDS: Mapping[str, type[Bwrap] | type[Landlock]] = {"bwrap": Bwrap, "landlock": Landlock}


def host_facts() -> Facts:
    """Return the facts of this host that planning asks for."""
    from sandboxc.runtime import linux

    try:
        abi = linux.landlock_abi()
    except OSError:
        abi = 0
    return Facts("this host", os.uname().machine, abi)


def _needed_capabilities(session: Session) -> int:
    """Return the capabilities that root keeps so that the ceiling is in reach (design rule 13).

    Landlock decides apart from file permissions, so overriding those opens no denied place.
    """
    if os.geteuid() != 0:
        return 0
    for site in session.resolved.write_roots:
        try:
            if site.node is not None and os.lstat(site.path).st_uid != 0:
                return CAP_DAC_OVERRIDE
        except OSError:
            continue
    return 0


def _check_unmoved(session: Session) -> None:
    """Raise where a stricter place is no longer what the survey saw: its neighbours' rules would be for another tree.

    bubblewrap compares what it mounts; rules are made for the neighbours of a denied node and name it nowhere.

    Raises:
        Stale: survey again.
    """
    for site in session.resolved.sites:
        if site.node is None or RANK[site.access] >= RANK[site.above]:
            continue
        try:
            found = os.lstat(site.path)
        except OSError:
            raise Stale(f"`{site.path}` has gone since the survey") from None
        if (found.st_dev, found.st_ino) != (site.node.dev, site.node.ino):
            raise Stale(f"`{site.path}` has been replaced since the survey")


def check(backend: Backend, session: Session) -> tuple[Loss, ...]:
    """Return every loss of a planned run, waivers applied.

    Raises:
        Refused: a loss occurs that the policy neither waives nor leaves to a preset, or full enforcement is
            required and not to be had.
    """
    if has_errors(backend.diagnostics):
        raise Refused(backend.diagnostics)
    waivers = [waiver for waiver in session.subject.options.waivers if waiver.target == backend.target]
    occurred = [_waived(loss._replace(conditional=False), waivers) for loss in backend.losses]
    expected = [_waived(loss, waivers) for loss in backend.expected() if not loss.conditional]
    losses = tuple(dict.fromkeys((*expected, *occurred)))
    problems = [
        error(
            loss.code,
            f"{loss.target}: {loss.message} ({loss.kind})",
            loss.span,
            f'accept it in the policy with {{loss: {loss.code}, target: {loss.target}, at: "{loss.at}", reason: ...}}',
        )
        for loss in losses
        if loss.stops
    ]
    if session.subject.require == "full" and (enforcement(losses) != "full" or session.resolved.incomplete):
        short = sorted({f"{loss.code} at `{loss.at}`" for loss in losses if loss.kind != NARROWER})
        short += list(session.resolved.incomplete)
        problems.append(
            error(
                "SBX403", f"{backend.target} holds this policy in part only here", None, f"not held: {', '.join(short)}"
            )
        )
    if problems:
        raise Refused(problems)
    return losses


def _waived(loss: Loss, waivers: Sequence[Waiver]) -> Loss:
    for waiver in waivers:
        if waiver.loss == loss.code and waiver.at.value == loss.at:
            return loss._replace(waived=waiver.reason)
    return loss
