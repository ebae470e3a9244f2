"""Operators: what a model needs, what a platform offers, and what is missing between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dayzero.domain.findings import Finding
from dayzero.domain.manifests import CollectiveFact, DtypeFact, ManifestOrigin
from dayzero.domain.sampling import CallFact
from dayzero.domain.verdict import Grade, Verdict


class Phase(StrEnum):
    """The phase of a run in which an operator is used."""

    PREFILL = "prefill"
    DECODE = "decode"
    TRAIN = "train"


@dataclass(frozen=True, slots=True)
class KernelUse:
    """A kernel-level operator, by its taxonomy name, with how many layers use it and the figures that constrain it."""

    name: str
    layers: int
    constraints: Mapping[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GraphUse:
    """A graph-level operator: name with overload (aten.mm.default), dtypes of its tensor arguments, shapes as a class.

    `shape_class` writes the shapes of the tensor arguments, sizes that depend on the workload as symbols (Trace.symbols);
    `modules` are module paths with the layer index as `*`. `flops` and `bytes_moved` are totals over all `count` calls; None
    where no formula is known. `part_of` names the composite (aten.scaled_dot_product_attention.default, hub.RMSNorm,
    fla.chunk_gated_delta_rule …) that this use is a part of: a library that offers the composite needs none of its parts, and
    totals count the uses that are part of nothing.
    """

    name: str
    dtypes: tuple[str, ...]
    shape_class: str
    phase: Phase
    count: int
    modules: tuple[str, ...]
    flops: int | None = None
    bytes_moved: int | None = None
    part_of: str | None = None


@dataclass(frozen=True, slots=True)
class CollectiveUse:
    """A collective (all_reduce, all_gather …) of a run sharded by `tp`, as rank 0 makes it.

    `message_bytes` is the total over all `count` calls of the whole message: the input of a reduction, the output of a gather.
    """

    name: str
    tp: int
    phase: Phase
    dtype: str
    shape_class: str
    count: int
    message_bytes: int
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Where torch.compile leaves the graph: its reason, and the line of code (file of the modelling library, line number)."""

    reason: str
    file: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """What compilation makes of the architecture at reduced depth and batch 1, in one phase.

    `eager_launches` are operators that move or compute data, run one by one (None where the code asks for data, which there
    is none of); `compiled_launches` the groups that Inductor's scheduler leaves of them (None where a graph break or an error
    kept it from the whole); `why` says what could not be told. `layers` is the depth.
    """

    phase: Phase
    layers: int
    graphs: int
    breaks: tuple[GraphBreak, ...]
    eager_launches: int | None
    compiled_launches: int | None
    fused_groups: int | None
    library_calls: int | None
    exported: bool | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What a trace shall hold: `tp` shards the model as its library does and traces one rank; `degrees` are those whose
    collectives are counted; `train` adds a training step; `compiled` compiles at reduced depth."""

    tp: int = 1
    degrees: tuple[int, ...] = (8,)
    train: bool = True
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """What a tracer saw: graph-level uses, parameters by component, and the modelling library's name and version.

    `symbols` maps each symbol in the shape classes to its size in this trace; `tp` is the degree that `uses` are sharded by;
    `decompositions` are torch's own, taken on the arguments that the model gave.
    """

    uses: tuple[GraphUse, ...]
    parameters_by_component: Mapping[str, int]
    library: str
    findings: tuple[Finding, ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    collectives: tuple[CollectiveUse, ...] = ()
    compiled: tuple[CompiledGraph, ...] = ()
    tp: int = 1
    decompositions: "tuple[Decomposition, ...]" = ()


@dataclass(frozen=True, slots=True)
class OperatorInventory:
    """All operators that a model needs, on both levels. `traced_with` names the modelling library's version, or None.

    `quantization` is the method of the weights as the configuration names it. Other fields are as in Trace.
    """

    architecture: str | None
    kernels: tuple[KernelUse, ...]
    graph: tuple[GraphUse, ...]
    traced_with: str | None
    findings: tuple[Finding, ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    collectives: tuple[CollectiveUse, ...] = ()
    compiled: tuple[CompiledGraph, ...] = ()
    tp: int = 1
    decompositions: "tuple[Decomposition, ...]" = ()
    quantization: str | None = None


class SupportKind(StrEnum):
    """How a platform provides an operator."""

    NATIVE = "native"
    COMPOSITE = "composite"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True)
class OperatorSupport:
    """A platform's support for one operator: dtypes (empty: any), phases (empty: all), constraints in words.

    `library_names` are the provider's own names for it; `facts` what running it showed, one a dtype (none: it was not run).
    """

    name: str
    kind: SupportKind
    grade: Grade
    dtypes: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = ()
    constraints: tuple[str, ...] = ()
    library_names: tuple[str, ...] = ()
    facts: tuple[DtypeFact, ...] = ()

    @property
    def raised(self) -> Mapping[str, str]:
        """The dtypes in which running it raised, each with what was raised: no use in such a dtype is covered."""
        return {
            fact.dtype: fact.why or "it raised" for fact in self.facts if fact.verdict is Verdict.ERROR and not fact.crashed
        }


@dataclass(frozen=True, slots=True)
class Decomposition:
    """An operator that can be replaced by others: its name and the names that it is made of."""

    name: str
    into: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorManifest:
    """What one provider offers on one platform, sorted by name; `excluded` maps operators known not to work to the reason.

    Names are graph operators (`aten.mm.default`) or the taxonomy's; what a provider offers beyond both stands in `unnamed`
    under its own name. Unless `takes_apart`, an operator that is not offered is not run as its parts: it stops
    the model. `unknown` says what the source does not tell; `source` is the file that was read, with its sha256. `sampled` is
    what models' own calls showed on drawn inputs, under `sampled_under` (the digest of figures, stack and method).
    """

    platform: str
    provider: str
    version: str
    operators: tuple[OperatorSupport, ...]
    decompositions: tuple[Decomposition, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    origin: ManifestOrigin = ManifestOrigin.DISPATCHER
    source: str = ""
    unnamed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    engines: "tuple[EngineManifest, ...]" = ()
    collectives: tuple[CollectiveFact, ...] = ()
    takes_apart: bool = True
    sampled: tuple[CallFact, ...] = ()
    sampled_under: str = ""


@dataclass(frozen=True, slots=True)
class EngineManifest:
    """What a serving engine says it can run, read from its published package as data.

    `architectures` are class names as configurations state them; `attention_kinds` are taxonomy names (attention.mla,
    linear_attention.kimi_delta …); `quantization_methods` are names as configurations state them (fp8, awq, gptq …).
    `platform` is the slug it was read for (None: said of no platform in particular). An empty tuple means that the
    source says nothing of it, never that there is none. `attention_backends` are the engine's own names; `plugin_of` names
    the engine that a plugin's package adds to: its lists are then only what it adds or replaces.
    """

    engine: str
    version: str
    architectures: tuple[str, ...]
    attention_kinds: tuple[str, ...] = ()
    quantization_methods: tuple[str, ...] = ()
    platform: str | None = None
    grade: Grade = Grade.DECLARED
    source: str = ""
    attention_backends: tuple[str, ...] = ()
    plugin_of: str | None = None


class CoverageKind(StrEnum):
    """How an operator use is covered."""

    NATIVE = "native"
    DECOMPOSED = "decomposed"
    CUSTOM = "custom"
    FALLBACK = "fallback"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class OperatorCoverage:
    """How one operator is covered on the platform, and why that is so. Shares are of the whole model's FLOPs and bytes moved,
    over all phases that were traced; `part_of` as in GraphUse."""

    operator: str
    dtypes: tuple[str, ...]
    kind: CoverageKind
    grade: Grade
    why: str
    count: int
    modules: tuple[str, ...]
    flops_share: float
    bytes_share: float = 0.0
    phases: tuple[Phase, ...] = ()
    part_of: str | None = None


class Bridging(StrEnum):
    """How a gap can be bridged, the cheapest first."""

    DECOMPOSITION = "decomposition"
    COMPILE = "compile"
    KERNEL = "kernel"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Gap:
    """An operator that is not covered, with its share of compute and the way to bridge it (None: none is known).

    `score` is share × models / cost; share is the mean of the shares of FLOPs and bytes (never nothing), cost the figure of
    `bridging`; `models` counts the models known to lack this operator on the platform, this one included.
    """

    operator: str
    why: str
    bridge: str | None
    flops_share: float
    calls: int
    modules: tuple[str, ...]
    bytes_share: float = 0.0
    bridging: Bridging = Bridging.UNKNOWN
    cost: float = 0.0
    share: float = 0.0
    models: int = 1
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class EngineRoute:
    """Whether a serving engine says that it runs the model: covered, missing, or unknown (None) with the reasons."""

    engine: str
    version: str
    covered: bool | None
    grade: Grade
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """Coverage of one inventory by one manifest; `graph_coverage` is the share of distinct graph uses that are not missing.

    It is None when the graph level is unknown (nothing was traced). Gaps come ranked, the most worthwhile bridge first. `tp`
    is the degree that shapes and figures were judged at; `engines` is the other route to the model.
    """

    platform: str
    manifest_digest: str
    grade: Grade
    operators: tuple[OperatorCoverage, ...]
    gaps: tuple[Gap, ...]
    graph_coverage: float | None
    findings: tuple[Finding, ...] = ()
    tp: int = 1
    engines: tuple[EngineRoute, ...] = ()
