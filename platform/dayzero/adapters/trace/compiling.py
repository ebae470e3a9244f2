"""What compilation makes of an architecture: graph breaks, fused groups, launches. Imported by child processes only.

The model is built at full width and the least depth that has every kind of layer, as tensors that only pretend to have memory:
torch captures and Inductor schedules it as for a real device, and nothing is computed.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode

from dayzero.adapters.trace.building import BuildError, Built, build_on
from dayzero.adapters.trace.counting import is_view
from dayzero.adapters.trace.folding import first_of_each_kind
from dayzero.adapters.trace.shapes import TOKENS
from dayzero.domain.operators import CompiledGraph, GraphBreak, Phase

_MOST_LAYERS = 8
_NO_LAUNCH = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh"})
_LIBRARY = str(PurePath(transformers.__file__).parent)


class _Launches(TorchDispatchMode):  # type: ignore[misc]
    """Counts the operators that an eager run launches: views and bare allocations are none."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not is_view(func) and func._schema.name.split("::")[1] not in _NO_LAUNCH:
            self.count += 1
        return func(*args, **(kwargs or {}))


def compiled_graphs(text: str, built: Built, *, experts: str | None = "grouped_mm") -> tuple[CompiledGraph, ...]:
    """The prefill of the architecture, compiled at reduced depth; one row, whose `why` says what could not be told.

    `built` is the whole model, which tells the kinds of layers apart; `experts` as the library's experts_implementation.
    """
    layers = min(first_of_each_kind(built.model), _MOST_LAYERS)
    fakes = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    try:
        with fakes:
            model = build_on(shallow(text, layers), experts)
            tokens = torch.zeros((1, TOKENS), dtype=torch.int64)
    except Exception as error:  # noqa: BLE001 - the library's code can raise anything; it is told
        return (CompiledGraph(Phase.PREFILL, layers, 0, (), None, None, None, None, None, _sentence(error)),)
    launched = _launched(model, tokens, fakes)
    graphs, reasons, stopped = _captured(model, tokens)
    breaks = breaks_of(reasons)
    nodes, why = _scheduled(graphs) if graphs and not breaks and not stopped else (None, stopped or "the graph breaks")
    exported, refusal = _exports(model, tokens, fakes)
    launches = None if nodes is None else sum(nodes.values()) - nodes["NopKernelSchedulerNode"]
    return (
        CompiledGraph(
            Phase.PREFILL, layers, len(graphs), breaks, launched, launches,
            None if nodes is None else sum(count for name, count in nodes.items() if "Fused" in name),
            None if nodes is None else nodes["ExternKernelSchedulerNode"], exported, "; ".join(filter(None, (why, refusal))),
        ),
    )  # fmt: skip


def shallow(text: str, layers: int) -> str:
    """The configuration with so many layers; lists and patterns with one item a layer are cut as well."""
    document = json.loads(text)
    document.pop("quantization_config", None)
    for holder in (document, *(value for value in document.values() if isinstance(value, dict))):
        count = holder.get("num_hidden_layers")
        if isinstance(count, int):
            for name, value in holder.items():
                if isinstance(value, list | str) and len(value) == count:
                    holder[name] = value[:layers]
            holder["num_hidden_layers"] = min(count, layers)
    return json.dumps(document)


def breaks_of(reasons: Iterable[Any]) -> tuple[GraphBreak, ...]:
    """Each place where the graph breaks, with its line in the modelling code, the most frequent first."""
    counted: Counter[tuple[str, str, int]] = Counter()
    for reason in reasons:
        frames = list(reason.user_stack or ())
        frame = next((one for one in reversed(frames) if _LIBRARY in one.filename), frames[-1] if frames else None)
        file = "" if frame is None else frame.filename.split("site-packages/")[-1]
        counted[" ".join(str(reason.reason).split())[:300], file, 0 if frame is None else int(frame.lineno or 0)] += 1
    return tuple(GraphBreak(reason, file, line, count) for (reason, file, line), count in counted.most_common())


def _launched(model: Any, tokens: Any, fakes: Any) -> int | None:
    """Operators of one eager run; None where it asks for data, which there is none of."""
    eager = _Launches()
    try:
        with fakes, torch.no_grad(), eager:
            model(input_ids=tokens, use_cache=True)
    except Exception:  # noqa: BLE001 - capture below says where and why, with the line of code
        return None
    return eager.count


def _captured(model: Any, tokens: Any) -> tuple[list[Any], list[Any], str]:
    """The graphs that torch.compile captures, why each ended early, and what stopped the run (nothing: it came to its end)."""
    graphs: list[Any] = []
    reasons: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        reason = getattr(graph, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break:
            reasons.append(reason)
        return graph.forward

    torch._dynamo.reset()
    try:
        with torch.no_grad():
            torch.compile(model, backend=backend)(input_ids=tokens, use_cache=True)
    except Exception as error:  # noqa: BLE001 - between two graphs the code runs as it is, and asks for data that is not there
        return graphs, reasons, f"after {len(graphs)} graphs: {_sentence(error)}"
    return graphs, reasons, ""


def _scheduled(graphs: Iterable[Any]) -> tuple[Counter[str] | None, str]:
    """Nodes that Inductor's scheduler leaves, by kind; None with the reason where it could not be asked."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._inductor.decomposition import select_decomp_table

    nodes: Counter[str] = Counter()

    def compiler(graph: Any, inputs: Any) -> Any:
        nodes.update(_nodes(graph, inputs))
        return graph.forward

    try:
        for graph in graphs:
            inputs = [node.meta["example_value"] for node in graph.graph.nodes if node.op == "placeholder"]
            mode = torch._guards.detect_fake_mode(inputs)
            with mode, torch.no_grad():
                aot_module_simplified(
                    graph, inputs, fw_compiler=compiler, inference_compiler=compiler, decompositions=select_decomp_table()
                )
    except Exception as error:  # noqa: BLE001 - Inductor's inner parts differ between releases; what they say is told
        return None, f"Inductor could not schedule it: {_sentence(error)}"
    return nodes, ""


def _nodes(graph: Any, inputs: Any) -> Iterable[str]:
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import Scheduler
    from torch._inductor.virtualized import V

    lowering = GraphLowering(graph, example_inputs=inputs)
    mode = torch._guards.detect_fake_mode(inputs)
    with V.set_debug_handler(_Quiet()), V.set_fake_mode(mode), V.set_graph_handler(lowering), V.set_extern_kernel_nodes([]):
        lowering.run(*inputs)
        return [type(node).__name__ for node in Scheduler(lowering.operations).nodes]


class _Quiet:
    """Takes every debugging call of the scheduler and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def _exports(model: Any, tokens: Any, fakes: Any) -> tuple[bool | None, str]:
    try:
        from transformers.integrations.executorch import register_dynamic_cache_export_support

        register_dynamic_cache_export_support()
        with fakes, torch.no_grad():
            torch.export.export(model, (), {"input_ids": tokens, "use_cache": True}, strict=False)
    except Exception as error:  # noqa: BLE001 - whatever the exporter raises is the answer
        return False, f"torch.export: {_sentence(error)}"
    return True, ""


def _sentence(error: BaseException) -> str:
    if isinstance(error, BuildError):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
