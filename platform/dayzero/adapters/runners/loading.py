"""Checkpoints into modules, texts into token ids. Nothing here reaches for the network or runs repository code."""

import copy
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
)

from dayzero.adapters.runners.scaled import require_scales
from dayzero.adapters.runners.unset_buffers import memory_marked, require_set
from dayzero.domain.runs import RunRequest
from dayzero.errors import BadInputError, BlockedError
from dayzero.registry import operator_bridge, operator_plugin, parse_plugin_setting
from dayzero.stages.structure.language_head import writes_text

NO_TOKENIZER = "the checkpoint has no tokenizer that can be read"
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, slots=True)
class TokenInput:
    """Token ids [1, tokens] and where they come from, in words."""

    ids: torch.Tensor
    source: str


def option_int(request: RunRequest, name: str, default: int, least: int = 1) -> int:
    """An integer option; BadInputError when it is none or too small."""
    value = request.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInputError(f"option {name}={value!r} is not an integer of at least {least}.", remedy="Correct the option.")
    return value


def model_folder(request: RunRequest) -> Path:
    """The request's checkpoint folder; BadInputError when it has none or no config.json."""
    if request.model_dir is None:
        raise BadInputError("the request names no model folder.", remedy="Give model_dir.")
    folder = Path(request.model_dir)
    if not (folder / "config.json").is_file():
        raise BadInputError(f"{folder} has no config.json.", remedy="Fetch the model first.")
    return folder


def read_config(folder: Path) -> Any:
    """The library's configuration; BlockedError for an architecture that it does not know."""
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError, TypeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BlockedError(
            f"no reference: the modelling library cannot read {folder.name}'s configuration ({first}).",
            remedy="Install a release of transformers that knows this architecture.",
        ) from error


def native_dtype(config: Any, wanted: str | None) -> torch.dtype:
    """The dtype asked for, else the configuration's; BadInputError when neither is usable."""
    text = getattr(config, "get_text_config", lambda: config)()
    named = wanted or getattr(config, "dtype", None) or getattr(text, "dtype", None)
    name = str(named).removeprefix("torch.")
    if name not in DTYPES:
        raise BadInputError(f"native dtype {name} is not one of {', '.join(DTYPES)}.", remedy="Name one with dtype.")
    return DTYPES[name]


def load_model(folder: Path, dtype: torch.dtype, attention: str = "eager", experts: str = "eager") -> Any:
    """The checkpoint as a module in eval mode, on the CPU, with the named implementations where the model has them.

    BadInputError: the checkpoint lacks tensors, which the library would draw at random.
    """
    model, told = from_pretrained(folder, dtype, attention, experts)
    # An encoder's pooler is no part of what is compared; many checkpoints leave it out.
    missing = sorted(name for name in told["missing_keys"] if not name.startswith("pooler."))
    if missing:
        raise BadInputError(f"the checkpoint lacks {missing[0]} and {len(missing) - 1} more tensors.", remedy="Fetch it anew.")
    return model.eval().requires_grad_(False)


def from_pretrained(
    folder: Path, dtype: torch.dtype, attention: str = "eager", experts: str = "eager", *, headless: bool = False
) -> tuple[Any, Mapping[str, Any]]:
    """The library's own loading, with the implementations that the model takes; the model, and what the library says of it.
    `headless` is all that the checkpoint has but a head.

    BlockedError: the library left a buffer unset that no checkpoint holds.
    """
    config = read_config(folder)
    require_scales(folder, config)
    kwargs: dict[str, Any] = {"dtype": dtype, "local_files_only": True, "trust_remote_code": False, "config": config}
    chosen: dict[str, str]
    for chosen in (
        {"attn_implementation": attention, "experts_implementation": experts},
        {"attn_implementation": attention},
        {},
    ):
        try:
            with memory_marked():
                model, told = (AutoModel if headless else model_class(config)).from_pretrained(
                    folder, use_safetensors=True, output_loading_info=True, **kwargs, **chosen
                )
            require_set(model)
            return model, told
        except (ValueError, TypeError) as error:
            if not chosen:
                raise
            print(f"loading with {chosen}: {str(error).splitlines()[0]}")
    raise AssertionError("the last choice returns or raises")


def model_class(config: Any) -> Any:
    """The library's class for a checkpoint: with a language head only where the publisher's own class has one.

    Asked for a head that a checkpoint lacks, the library draws it at random, and all that is measured then is that.
    """
    named = (getattr(config, "architectures", None) or [None])[0]
    if not writes_text(named, causal=is_causal(config)):
        return AutoModel
    both = (
        type(config) in AutoModelForImageTextToText._model_mapping and type(config) not in AutoModelForCausalLM._model_mapping
    )
    return AutoModelForImageTextToText if both else AutoModelForCausalLM


def shadow(module: Any) -> Any:
    """A copy of the module tree that shares parameters and buffers: it can be patched without touching the original."""
    memo = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return copy.deepcopy(module, memo)


def tokenizer_of(folder: Path) -> Any | None:
    """The checkpoint's tokenizer, or None when it has none that can be read (the log says why)."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        return None
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # noqa: BLE001 - the tokenizers library raises bare exceptions for files that are none
        print(f"tokenizer: {type(error).__name__}: {error}")
        return None


def is_causal(config: Any) -> bool:
    """Whether the configuration's class attends only backwards, as far as the library's mappings tell."""
    return type(config) in AutoModelForCausalLM._model_mapping and type(config) not in AutoModelForMaskedLM._model_mapping


def packaged_text() -> tuple[str, str]:
    """Name and text of the short public-domain text (the opening of Alice's Adventures in Wonderland, 1865)."""
    return "alice.txt", files("dayzero.adapters.runners.data").joinpath("alice.txt").read_text(encoding="utf-8")


def text_tokens(folder: Path, config: Any, text: str, limit: int) -> TokenInput:
    """The text's first tokens; without a tokenizer its bytes modulo the vocabulary, which is said."""
    vocabulary = int(getattr(config.get_text_config(), "vocab_size", 0) or 0)
    tokenizer = tokenizer_of(folder)
    if tokenizer is not None:
        ids = tokenizer(text, add_special_tokens=True)["input_ids"][:limit]
        source = f"{type(tokenizer).__name__} of the checkpoint"
    else:
        ids = [byte % max(vocabulary, 1) for byte in text.encode()][:limit]
        source = "bytes of the text modulo the vocabulary: the checkpoint has no tokenizer"
    check_tokens(ids, vocabulary)
    return TokenInput(torch.tensor([ids]), source)


def check_tokens(ids: list[int], vocabulary: int) -> None:
    """BadInputError unless there are at least two token ids, all of the vocabulary."""
    if len(ids) < 2 or vocabulary < 2 or max(ids) >= vocabulary:
        raise BadInputError(
            f"{len(ids)} token ids up to {max(ids, default=0)} do not fit a vocabulary of {vocabulary}.",
            remedy="The tokenizer and config.json do not belong together; fetch the model anew.",
        )


LAYER_LISTS = ("layers", "h", "blocks", "layer")
"""What models call the list of their layers."""


def decoder_layers(model: Any) -> tuple[str, Any]:
    """Path and ModuleList of the decoder's layers; BlockedError when the model keeps them in no list.

    Some models have two sublayers of the configuration's count in each layer (LongCat): the only list in the model's base is
    theirs. A tower beside the language model may have as many layers as that has.
    """
    wanted = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    lists = [
        (name, module) for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) and name.split(".")[-1] in LAYER_LISTS
    ]  # fmt: skip
    base = getattr(model, "base_model_prefix", "")
    alone = [one for one in lists if one[0].rpartition(".")[0] == base]
    text = text_models(model)
    fitting = [one for one in lists if len(one[1]) == wanted]
    fitting.sort(key=lambda one: not any(one[0].startswith(f"{name}.") for name in text))
    for name, module in (*fitting, *(alone if len(alone) == 1 else ())):
        return name, module
    raise BlockedError("no list of decoder layers was found in the model.", remedy="This architecture needs its own recipe.")


def text_models(model: Any) -> tuple[str, ...]:
    """Paths of the models inside the model that the configuration of its language model describes."""
    text = model.config.get_text_config()
    inner = ((name, module) for name, module in model.named_modules() if name and isinstance(module, PreTrainedModel))
    return tuple(name for name, module in inner if module.config is text)


@contextmanager
def plugins_installed(model: Any, request: RunRequest) -> Iterator[Mapping[str, str]]:
    """The request's precision policy and operator plugins put into the model; yields replacement → operator whose place it
    takes."""
    with ExitStack() as stack:
        if request.policy is not None:
            from dayzero.adapters.runners.schemes import policy_applied

            stack.enter_context(policy_applied(model, request.policy))
        replaced: dict[str, str] = {}
        for text in request.custom_operators:
            setting = parse_plugin_setting(text)
            if operator_bridge(setting.name) is not None:
                continue
            plugin = operator_plugin(setting.name)
            if plugin.platforms and request.platform not in plugin.platforms:
                raise BadInputError(
                    f"operator plugin {plugin.name} is for {', '.join(plugin.platforms)}, not {request.platform}.",
                    remedy="Switch it off for this platform.",
                )
            stack.enter_context(plugin.install(model, setting.options))
            replaced[plugin.replacement] = plugin.operator
        yield replaced


def quiet() -> None:
    """Keep library chatter out of the log: what remains there is ours."""
    warnings.filterwarnings("ignore")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)


def config_json(folder: Path) -> Mapping[str, object]:
    """The raw configuration."""
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(raw, dict):
        raise BadInputError(f"{folder}/config.json is no JSON object.", remedy="Fetch the model anew.")
    return raw
