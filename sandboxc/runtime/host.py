"""What this host and user give a binding: default parameter values, the run base, the state directory."""

import os
import stat
from collections.abc import Mapping

from sandboxc.diagnostics import Diagnostic, error
from sandboxc.records import NamedTuple


class Surroundings(NamedTuple):
    """The values that a host gives, and what was refused on the way.

    ``values`` maps parameter names to absolute paths. ``homes`` are the home directories that belong to the user:
    the one in the environment and, where it differs, the one in the password database; hidden paths hold in each.
    """

    values: dict[str, str]
    homes: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def surroundings(environ: Mapping[str, str], cwd: str) -> Surroundings:
    """Return the default value of each built-in parameter (environ(7), XDG Base Directory Specification).

    Args:
        environ: the environment; values that are not absolute are resolved against ``cwd``.
        cwd: the absolute current directory, which is the default workspace.
    """
    problems: list[Diagnostic] = []
    account = _account_home()
    home = environ.get("HOME", "") or account
    if not home.startswith("/"):
        problems.append(
            error("SBX721", f"HOME is `{home}`, which is not absolute", help="set HOME, or pass --bind home=")
        )
        home = account or "/"
    home = os.path.realpath(home)
    homes = tuple(dict.fromkeys(path for path in (home, os.path.realpath(account) if account else home)))
    values = {
        "workspace": os.path.realpath(cwd),
        "home": home,
        "tmp": os.path.realpath(os.path.join(cwd, environ.get("TMPDIR", "") or "/tmp")),  # noqa: S108
        "user-config": os.path.join(home, environ.get("XDG_CONFIG_HOME", "") or ".config"),
        "user-cache": os.path.join(home, environ.get("XDG_CACHE_HOME", "") or ".cache"),
    }
    runtime = environ.get("XDG_RUNTIME_DIR", "") or f"/run/user/{os.getuid()}"
    if os.path.isdir(runtime):
        values["user-runtime"] = os.path.join(cwd, runtime)
    agent = environ.get("SSH_AUTH_SOCK", "")
    if agent:
        values["ssh-auth-sock"] = os.path.join(cwd, agent)
    docker = environ.get("DOCKER_HOST", "")
    if docker.startswith("unix://") and docker != "unix://":
        values["docker-sock"] = os.path.join(cwd, docker.removeprefix("unix://"))
    return Surroundings(values, homes, tuple(problems))


def _account_home() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def root_problems(values: Mapping[str, str], homes: tuple[str, ...]) -> tuple[Diagnostic, ...]:
    """Return an error for each mode root that would make a whole home, or what holds it, writable by default.

    Args:
        values: the bound values of ``workspace`` and ``tmp`` that the policy uses as writable roots.
        homes: the user's home directories.
    """
    found: list[Diagnostic] = []
    for name, path in sorted(values.items()):
        for home in homes:
            if home == path or home.startswith(path.rstrip("/") + "/"):
                found.append(
                    error(
                        "SBX722",
                        f"`{name}` is `{path}`, which holds the home directory `{home}`",
                        help="run in a project directory, or write an entry for the tree that is meant",
                    )
                )
                break
    return tuple(found)


def kept_problems(environ: Mapping[str, str], roots: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Return an error for each directory that the environment names for what runs keep and a root holds.

    Whoever writes there in one run, in another environment, has the next believe journals of its making.

    Args:
        environ: the environment.
        roots: parameters that are writable roots as a whole, with their physical values.
    """
    found = []
    for variable in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        path = environ.get(variable, "")
        held = os.path.realpath(path) if path.startswith("/") else ""
        for name, root in roots.items():
            if held and (held + "/").startswith(root.rstrip("/") + "/"):
                words = f"{variable} is `{path}`, which the policy makes writable with `{name}`"
                found.append(error("SBX723", words, help="runs keep their journals there: name a directory elsewhere"))
    return tuple(found)


class BaseError(Exception):
    """The run base or the state directory cannot be used; the text says why."""


def run_base_path(environ: Mapping[str, str], state: str, crowded: bool) -> str:
    """Return where the private temp directories of this user's runs are kept; nothing is made.

    It is short, so that socket paths below it stay under the 108 bytes of unix(7): in the user's run-time
    directory where there is one, else in /tmp; where the policy makes /tmp writable (``crowded``), below ``state``.
    """
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _is_private(runtime):
        return os.path.join(os.path.realpath(runtime), "sandboxc")
    return f"{state}/t" if crowded else f"/tmp/sandboxc-{os.getuid()}"  # noqa: S108


def run_base(environ: Mapping[str, str], state: str, crowded: bool) -> str:
    """Return what ``run_base_path`` returns for the same arguments, as a directory that is made if need be.

    Raises:
        BaseError: it is not a directory of this user's that nobody else may enter.
    """
    return _private_directory(run_base_path(environ, state, crowded))


def state_directory(home: str, environ: Mapping[str, str]) -> str:
    """Return the directory that holds the journals of occupants, made if need be.

    It outlives a restart of the machine, as the occupants do: below XDG_STATE_HOME, or the home directory, or, for an
    account without a home that can be written (a service, a container), in /var/tmp (file-hierarchy(7)).

    Raises:
        BaseError: it is not a directory of this user's that nobody else may enter.
    """
    named = environ.get("XDG_STATE_HOME", "")
    base = named if named.startswith("/") else os.path.join(home, ".local/state")
    if base == named or os.path.isdir(home):
        try:
            os.makedirs(base, mode=0o700, exist_ok=True)
        except OSError as fault:
            if base == named:
                raise BaseError(f"cannot make `{base}`: {fault.strerror}") from None
    held = os.path.join(os.path.realpath(base), "sandboxc")
    if base == named or os.path.lexists(held) or os.access(base, os.W_OK | os.X_OK):
        return _private_directory(held)
    return _private_directory(f"/var/tmp/sandboxc-{os.getuid()}")  # noqa: S108


def others(environ: Mapping[str, str], homes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the directories of temp directories and journals that runs of this user in another environment use.

    Only those that hold something are named: an empty one has nothing to keep, and as a denied place it could cost
    a policy that makes /tmp writable what it needs there.
    """
    account = os.getuid()
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    named = environ.get("XDG_STATE_HOME", "")
    found = [f"/run/user/{account}/sandboxc", f"/tmp/sandboxc-{account}", f"/var/tmp/sandboxc-{account}"]  # noqa: S108
    found += [f"{base}/sandboxc" for base in (runtime, named) if base.startswith("/")]
    found += [f"{home}/.local/state/sandboxc" for home in homes]
    return tuple(path for path in dict.fromkeys(map(os.path.realpath, found)) if _is_private(path) and _filled(path))


def _filled(path: str) -> bool:
    try:
        with os.scandir(path) as names:
            return next(names, None) is not None
    except OSError:
        return True


def _private_directory(path: str) -> str:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as fault:
        raise BaseError(f"cannot make `{path}`: {fault.strerror}") from None
    if not _is_private(path):
        raise BaseError(f"`{path}` is not a directory of mode 0700 that belongs to this user")
    return path


def _is_private(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
