"""Building an architecture on the meta device. Imported by child processes only."""

import json
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from dayzero.adapters.trace.composites import KernelScopes
from dayzero.adapters.trace.dispatching import Memo, MemoMode
from dayzero.domain.findings import Finding, Severity

_AUTO_CLASSES = (AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForMaskedLM, AutoModel)
_ATTENTION = ("sdpa", "eager")
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32, "float64": torch.float64}


class UnknownTypeError(Exception):
    """The modelling library does not know the model type."""


class BuildError(Exception):
    """The modelling library rejects the configuration."""


@dataclass(frozen=True, slots=True)
class Built:
    """A model on the meta device, its language configuration, and what was noticed while building it."""

    model: Any
    config: Any
    decodes: bool
    findings: list[Finding] = field(default_factory=list)


def build(text: str, scopes: KernelScopes, memo: Memo, *, language_only: bool = False) -> Built:
    """The architecture of a configuration, on the meta device, in the dtype that the configuration states.

    Fused experts and fused attention are taken where the architecture accepts them. Weights are built unquantized. Kernels
    that the model's code names tell `scopes` when they run. `language_only` leaves the towers of a multimodal model out;
    BuildError where its language model has no class of its own.
    """
    document = json.loads(text)
    findings: list[Finding] = []
    model_type = document.get("model_type")
    if model_type not in CONFIG_MAPPING:
        raise UnknownTypeError(str(model_type))
    if document.pop("auto_map", None) is not None:
        findings.append(_note("trace.own_code", "the repository has its own code; the library's implementation was traced"))
    quantized = document.pop("quantization_config", None) is not None
    if quantized:
        findings.append(_note("trace.unquantized", "traced with unquantized weights: quantized kernels are not in the graph"))
    dtype = _dtype(document, findings, quantized=quantized)
    try:
        config = CONFIG_MAPPING[model_type].from_dict(document)
    except Exception as error:
        raise BuildError(_sentence(error)) from error
    if language_only:
        config = _language_config(config)
        message = "its whole class does not run on text alone; its language model was traced, and its towers are not counted"
        findings.append(Finding("trace.language_only", "trace", message, Severity.WARNING))
    auto = _auto_class(config)
    model = _instantiate(auto, config, dtype, findings, scopes, memo)
    decodes = auto in (AutoModelForCausalLM, AutoModelForImageTextToText) and not getattr(config, "is_encoder_decoder", False)
    if auto is AutoModelForImageTextToText:
        findings.append(_note("trace.text_only", "traced with text alone: the operators of its towers are not in the graph"))
    return Built(model, config.get_text_config(decoder=True), decodes, findings)


def build_on(text: str, experts: str | None) -> Any:
    """The architecture of a configuration where tensors are made now (a mode or device around the call), in bfloat16.

    BuildError where the library refuses it.
    """
    document = json.loads(text)
    try:
        config = CONFIG_MAPPING[document.get("model_type")].from_dict(document)
        auto = _auto_class(config)
    except Exception as error:
        raise BuildError(_sentence(error)) from error
    refusal = "no way to build it"
    for attention, fused in product(_ATTENTION, dict.fromkeys((experts, None))):
        options = {"attn_implementation": attention} | ({"experts_implementation": fused} if fused else {})
        try:
            return auto.from_config(deepcopy(config), dtype=torch.bfloat16, trust_remote_code=False, **options).eval()
        except (ValueError, TypeError, NotImplementedError, ImportError) as error:
            refusal = _sentence(error)
    raise BuildError(refusal)


def _language_config(config: Any) -> Any:
    language = config.get_text_config(decoder=True)
    if language is config or type(language) not in AutoModelForCausalLM._model_mapping:
        raise BuildError(f"the language model of {config.model_type} has no class of its own")
    return language


def _auto_class(config: Any) -> Any:
    """The auto class that gives the class which the configuration names, else the first that knows its type."""
    fitting = [auto for auto in _AUTO_CLASSES if type(config) in auto._model_mapping]
    if not fitting:
        raise BuildError(f"no model class with a forward pass for {config.model_type}")
    named = set(config.architectures or ())
    for auto in fitting:
        classes = auto._model_mapping[type(config)]
        if named & {one.__name__ for one in (classes if isinstance(classes, tuple | list) else (classes,))}:
            return auto
    return fitting[0]


def _instantiate(auto: Any, config: Any, dtype: torch.dtype, findings: list[Finding], scopes: KernelScopes, memo: Memo) -> Any:
    refusals: list[str] = []
    # The fused product of experts exists for bfloat16 only; a loop over experts would ask for data, which meta has not.
    fused = "grouped_mm" if dtype is torch.bfloat16 else "batched_mm"
    for attention, experts in product(_ATTENTION, (fused, None)):
        options = {"attn_implementation": attention} | ({"experts_implementation": experts} if experts else {})
        try:
            with scopes.named_functions(), torch.device("meta"), MemoMode(memo):
                model = auto.from_config(deepcopy(config), dtype=dtype, trust_remote_code=False, **options)
        except (ValueError, TypeError, NotImplementedError, ImportError) as error:
            refusals.append(f"{attention}/{experts or 'plain'}: {_sentence(error)}")
            continue
        if attention == "eager":
            findings.append(
                _note("trace.eager_attention", "the architecture refuses fused attention; traced with eager attention")
            )
        return model.eval()
    raise BuildError(refusals[-1])


def _dtype(document: dict[str, Any], findings: list[Finding], *, quantized: bool) -> torch.dtype:
    """The stated dtype. Where none is: bfloat16 beside quantized weights, float32 (torch's default) else, with a finding."""
    nested = document.get("text_config") if isinstance(document.get("text_config"), dict) else {}
    for holder in (document, nested or {}):
        name = holder.get("dtype") or holder.get("torch_dtype")
        if isinstance(name, str) and name.removeprefix("torch.") in _DTYPES:
            return _DTYPES[name.removeprefix("torch.")]
    taken = torch.bfloat16 if quantized else torch.float32
    message = f"the configuration states no dtype that is known; assumed {taken}"
    findings.append(Finding("trace.dtype", "trace", message, Severity.WARNING))
    return taken


def _note(code: str, message: str) -> Finding:
    return Finding(code, "trace", message, Severity.NOTE)


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
