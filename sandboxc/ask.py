"""Questions in the words of a person: an operation and a path text, about a policy or a bound stack (pure)."""

from collections.abc import Mapping

from sandboxc import canonical
from sandboxc.bound import bind_stack
from sandboxc.diagnostics import PolicyError, error
from sandboxc.evaluator import Evaluator, Verdict
from sandboxc.layers import Layers
from sandboxc.lower import lower
from sandboxc.places import BUILTIN_PARAMETERS, PathProblem, Place, parse_place
from sandboxc.policy import Policy


class Question:
    """A bound stack that answers about path texts. ``values`` are the places of the parameters in them."""

    def __init__(
        self, stack: Layers, values: Mapping[str, Place], fold: bool | None = None, cwd: Place | None = None
    ) -> None:
        self.stack = stack
        self.values = values
        self.cwd = cwd
        folds = stack.os != "linux" if fold is None else fold
        self.evaluator = Evaluator(stack, folds)

    def place(self, text: str) -> Place:
        """Return the bound place that a path text names.

        Raises:
            PolicyError: the text is refused, or hangs from a parameter without a value.
        """
        names = {*BUILTIN_PARAMETERS, *self.values}
        spelled = parse_place(text, self.stack.flavour, names, self.cwd)
        if isinstance(spelled, PathProblem):
            raise PolicyError([error(spelled.code, f"`{text}`: {spelled.message}", None, spelled.help)])
        bound = spelled.place.bind(self.values)
        if bound is None:
            name = spelled.place.root
            raise PolicyError([error("SBX703", f"parameter `{name}` has no value", None, f"pass `--bind {name}=...`")])
        return bound

    def decide(self, op: str, path: str, to: str | None = None, exists: bool = True) -> Verdict:
        """Return the verdict on an operation; see ``sandboxc.decide``."""
        target = None if to is None else self.place(to)
        return self.evaluator.decide(op, self.place(path), target, exists)


def question(
    policy: Policy, os: str, values: Mapping[str, str], fold: bool | None = None, cwd: Place | None = None
) -> Question:
    """Return a policy bound for questions; what ``values`` leave open gets its canonical place.

    Raises:
        PolicyError: the policy does not hold together, or a value is refused.
    """
    lowered = lower(policy, os)
    if lowered.value is None:
        raise PolicyError(lowered.diagnostics)
    stack = lowered.value.layers
    given = {name: place.native() for name, place in canonical.values(stack.flavour).items()}
    given.update(values)
    declared = [parameter.name for parameter in policy.parameters]
    for name in declared:
        if name not in lowered.value.defaults:
            root = "C:\\canonical\\" if os == "windows" else "/canonical/"
            given.setdefault(name, root + name)
    places, bound, _ = bind_stack(stack, lowered.value.defaults, declared, given)
    return Question(bound, places, fold, cwd)
