"""How one operator is covered by one manifest: natively, by its parts, by an operator of one's own, elsewhere, or not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dayzero.domain.bridges import Bridge, BridgeKind
from dayzero.domain.operators import CoverageKind, Decomposition, OperatorManifest, OperatorSupport, Phase, SupportKind
from dayzero.domain.verdict import Grade
from dayzero.stages.coverage.figures import Figures, unmet

GRADES = (Grade.PREDICTED, Grade.DECLARED, Grade.MEASURED)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of an operator: its dtypes, phase and the figures of its shapes; empty where nothing is known."""

    dtypes: frozenset[str] = frozenset()
    phase: Phase | None = None
    figures: Figures | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """How it is covered, with what grade of evidence, and why."""

    kind: CoverageKind
    grade: Grade
    why: str


class Judge:
    """One manifest, indexed, with what a platform's plugins add and what torch makes of the model's operators."""

    def __init__(
        self, manifest: OperatorManifest, custom: Mapping[str, str | Bridge], seen: Iterable[Decomposition] = ()
    ) -> None:
        self.manifest = manifest
        self.custom = custom
        self.offered = {support.name: support for support in manifest.operators}
        # What was seen on the model's own arguments says more than what was seen on made-up ones.
        self.made_of = {rule.name: rule.into for rule in (*manifest.decompositions, *seen)}
        own = {rule.name: rule.into for rule in manifest.decompositions}
        self._taken_apart = self.made_of if manifest.takes_apart else own

    @property
    def provider(self) -> str:
        """The manifest's provider and version."""
        return f"{self.manifest.provider} {self.manifest.version}"

    def itself(self, name: str, asked: Asked) -> Answer | None:
        """How the operator is covered without taking it apart, or None."""
        custom = self.custom.get(name)
        if isinstance(custom, str):
            return Answer(CoverageKind.CUSTOM, Grade.DECLARED, f"custom operator: {custom}")
        if custom is not None and asked.dtypes <= set(custom.dtypes):
            return _bridged(custom)
        support = self.offered.get(name)
        if support is None or self.refusal(name, asked) is not None:
            return None
        if support.kind is SupportKind.NATIVE:
            return Answer(CoverageKind.NATIVE, support.grade, f"{self.provider} has a kernel for it")
        if support.kind is SupportKind.FALLBACK:
            return Answer(CoverageKind.FALLBACK, support.grade, f"{self.provider} runs it on another device or slower path")
        return None

    def judge(self, name: str, asked: Asked, above: frozenset[str] = frozenset()) -> Answer:
        """How one operator is covered; `above` holds the operators that are being decomposed already."""
        answer = self.itself(name, asked)
        if answer is not None:
            return answer
        refusal, support = self.refusal(name, asked), self.offered.get(name)
        if refusal is not None or support is None:
            return self._decomposed(name, refusal or f"not in the manifest of {self.provider}", above)
        return self._composite(support, above)

    def refusal(self, name: str, asked: Asked) -> str | None:
        """Why the manifest does not offer the operator for what is asked, in words with numbers; None where it does."""
        if name in self.manifest.excluded:
            return f"excluded on {self.manifest.platform}: {self.manifest.excluded[name]}"
        support = self.offered.get(name)
        if support is None:
            return None
        unfit = sorted(asked.dtypes - set(support.dtypes)) if support.dtypes else []
        if unfit:
            return f"{self.provider} does not offer it for {', '.join(unfit)} (it does for {', '.join(support.dtypes)})"
        raised = sorted(asked.dtypes & set(support.raised))
        if raised:
            return f"{self.provider} offers it, and running it raised in {raised[0]}: {support.raised[raised[0]]}"
        if asked.phase is not None and support.phases and asked.phase not in support.phases:
            return f"{self.provider} does not offer it in {asked.phase.value}"
        broken = unmet(support.constraints, asked.figures or {})
        if broken is not None:
            return f"{self.provider} offers it for {broken.constraint}, and {broken.figure} is {broken.value} here"
        return None

    def stays_whole(self, name: str, asked: Asked) -> bool:
        """Whether the operator is refused there and nothing takes it apart: it is missing until it is bridged."""
        return not self.manifest.takes_apart and self.refusal(name, asked) is not None

    def _composite(self, support: OperatorSupport, above: frozenset[str]) -> Answer:
        """An operator that its provider makes of others: covered as they are, where they are known."""
        parts = self.made_of.get(support.name)
        if support.name in above:
            return Answer(CoverageKind.MISSING, support.grade, f"{self.provider} makes it of itself, in a circle")
        if not parts:
            why = f"{self.provider} makes it of other operators, which it does not name"
            return Answer(CoverageKind.DECOMPOSED, support.grade, why)
        return self._of_parts(support.name, parts, f"{self.provider} makes it of other operators", support.grade, above)

    def _decomposed(self, name: str, refusal: str, above: frozenset[str]) -> Answer:
        parts = self._taken_apart.get(name)
        if not parts or name in above:
            return Answer(CoverageKind.MISSING, Grade.DECLARED, refusal)
        return self._of_parts(name, parts, refusal, Grade.DECLARED, above)

    def _of_parts(self, name: str, parts: tuple[str, ...], reason: str, grade: Grade, above: frozenset[str]) -> Answer:
        judged = {part: self.judge(part, Asked(), above | {name}) for part in parts}
        return of_parts(judged, reason, grade)


def _bridged(bridge: Bridge) -> Answer:
    """An operator by its verified bridge: what runs in its place was measured."""
    made = bridge.recipe.kind if bridge.recipe else BridgeKind.PLUGIN
    kind = CoverageKind.CUSTOM if made is BridgeKind.PLUGIN else CoverageKind.DECOMPOSED
    origin = bridge.recipe.origin if bridge.recipe else ""
    return Answer(kind, Grade.MEASURED, f"bridged by {made.value} ({origin}): {bridge.reason}")


def of_parts(judged: Mapping[str, Answer], reason: str, grade: Grade) -> Answer:
    """The coverage of an operator by that of its parts: decomposed when every one is covered, else missing."""
    names = ", ".join(judged)
    lost = sorted(part for part, answer in judged.items() if answer.kind is CoverageKind.MISSING)
    if lost:
        why = f"{reason}; it can be made of {names}, of which {', '.join(lost)} is missing too"
        return Answer(CoverageKind.MISSING, grade, why)
    lowest = min((grade, *(answer.grade for answer in judged.values())), key=GRADES.index)
    return Answer(CoverageKind.DECOMPOSED, lowest, f"{reason}; made of {names}")
