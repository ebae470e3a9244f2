"""GENERATION: text in, text out, greedily, with a cache, timed; then the references judge the tokens teacher-forced."""

import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch

from dayzero.adapters.runners import loading
from dayzero.adapters.runners.bridge_making import install
from dayzero.adapters.runners.figures import dtype_name, finite
from dayzero.adapters.runners.heads import wide_logits
from dayzero.adapters.runners.measuring import cache_of
from dayzero.adapters.runners.placing import device_for, fetched, on, peak_bytes, placed
from dayzero.adapters.runners.process_memory import own_peak_bytes
from dayzero.adapters.runners.three_ways import make_target, path_of, reference_dtype
from dayzero.domain.observations import Divergence, GenerationObserved
from dayzero.domain.runs import RunRequest

PROMPT = "What is the capital of France?"
FURTHER = ("Name three colors of the rainbow.", "Why is the sea salty?")
"""What is compared beside the prompt that is timed."""
NEW_TOKENS = 24


def observe_generation(request: RunRequest) -> GenerationObserved:
    """The target decodes step by step with its cache; the references see the whole text at once, without one."""
    began = time.monotonic()
    loading.quiet()
    folder = loading.model_folder(request)
    config = loading.read_config(folder)
    dtype = loading.native_dtype(config, request.dtype)
    prompt = str(request.options.get("prompt", PROMPT))
    tokenizer = loading.tokenizer_of(folder)
    ids, source = _prompt_ids(folder, config, tokenizer, prompt)
    further = () if "prompt" in request.options else FURTHER
    device = device_for(request)
    install(request.bridges, device)
    loading_began = time.monotonic()
    native = loading.load_model(folder, dtype)
    patched = make_target(native, device)
    load_s = time.monotonic() - loading_began
    with loading.plugins_installed(patched, request):
        new_tokens = loading.option_int(request, "new_tokens", NEW_TOKENS)
        steps = _decode(patched, placed(ids, device), new_tokens, _ends(native))
        runs = [(ids, steps.tokens)]
        for text in further:
            other, _ = _prompt_ids(folder, config, tokenizer, text)
            runs.append((other, _decode(patched, placed(other, device), new_tokens, _ends(native)).tokens))
    peak = own_peak_bytes()
    parted = [_compare(native, at, tokens, dtype) for at, tokens in runs]
    first = parted[0].apart[0] if parted[0].apart else None
    tpot = statistics.median(steps.step_s) if steps.step_s else None
    total = steps.ttft_s + sum(steps.step_s)
    return GenerationObserved(
        prompt,
        _text(tokenizer, steps.tokens),
        source,
        ids.shape[1],
        len(steps.tokens),
        steps.stopped,
        steps.nonfinite,
        dtype_name(dtype),
        f"eager, cached decoding, {path_of(patched)}{on(device)}",
        load_s,
        steps.ttft_s,
        tpot,
        len(steps.tokens) / total if total > 0 else None,
        peak,
        first.position if first else None,
        _text(tokenizer, [first.reference]) if first else None,
        _text(tokenizer, [first.target]) if first else None,
        first.margin if first else None,
        first.noise if first else None,
        _text(tokenizer, parted[0].tokens),
        f"eager, whole text at once, {path_of(native)}",
        request.custom_operators,
        time.monotonic() - began,
        peak_bytes(device),
        request.device.memory_bytes if request.device else None,
        len(runs),
        sum(len(tokens) for _, tokens in runs),
        tuple(
            Divergence(
                prompt, one.position, _text(tokenizer, [one.reference]), _text(tokenizer, [one.target]), one.margin, one.noise
            )
            for prompt, run in enumerate(parted)
            for one in run.apart
        ),
        None if tokenizer is not None or "dummy_seed" in request.options else loading.NO_TOKENIZER,
    )


def _prompt_ids(folder: Any, config: Any, tokenizer: Any, prompt: str) -> tuple[torch.Tensor, str]:
    """The prompt as the checkpoint's chat template writes it, else as plain text, else as bytes."""
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        given = loading.text_tokens(folder, config, prompt, 512)
        return given.ids, given.source
    text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    loading.check_tokens(ids[0].tolist(), int(config.get_text_config().vocab_size))
    return ids, f"{type(tokenizer).__name__} and chat template of the checkpoint"


def _ends(model: Any) -> set[int]:
    ends = model.generation_config.eos_token_id
    return set(ends if isinstance(ends, list) else [] if ends is None else [ends])


def _text(tokenizer: Any, tokens: list[int]) -> str:
    if tokenizer is None:
        return " ".join(map(str, tokens))
    return str(tokenizer.decode(tokens, skip_special_tokens=False))


class _Steps:
    """Tokens with their times."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.step_s: list[float] = []
        self.ttft_s = 0.0
        self.nonfinite = 0
        self.stopped = False


def _decode(model: Any, ids: torch.Tensor, new_tokens: int, ends: set[int]) -> _Steps:
    """Greedy decoding; an end token ends it and is no part of the tokens."""
    steps, given = _Steps(), ids
    cache: dict[str, Any] = {}
    with torch.no_grad():
        model(ids[:, :1], use_cache=True)
        for step in range(new_tokens):
            began = time.monotonic()
            out = model(given, use_cache=True, **cache)
            last = fetched(out.logits[0, -1])
            token = int(last.argmax())
            spent = time.monotonic() - began
            steps.nonfinite += int((~torch.isfinite(last)).sum())
            if step == 0:
                steps.ttft_s = spent
            else:
                steps.step_s.append(spent)
            if token in ends:
                steps.stopped = True
                break
            steps.tokens.append(token)
            cache = cache_of(out)
            new = placed(torch.tensor([[token]]), given.device)
            given = new if cache else torch.cat([given, new], dim=1)
    return steps


@dataclass(frozen=True, slots=True)
class _Apart:
    """One position where target and reference take different tokens."""

    position: int
    reference: int
    target: int
    margin: float | None
    noise: float | None


@dataclass(frozen=True, slots=True)
class _Parted:
    """What the reference says to the target's text: its tokens up to the first that differs, and all that differ."""

    tokens: list[int]
    apart: list[_Apart]


def _compare(native: Any, ids: torch.Tensor, tokens: list[int], dtype: torch.dtype) -> _Parted:
    """The native reference's choices on the target's text; equal until the first that differs, greedy decoding is the same."""
    if not tokens:
        return _Parted([], [])
    whole = torch.cat([ids, torch.tensor([tokens])], dim=1)[:, :-1]
    with torch.no_grad():
        plain = native(whole, use_cache=False).logits[0, ids.shape[1] - 1 :]
    chosen = plain.argmax(-1).tolist()
    where = [at for at, (left, right) in enumerate(zip(chosen, tokens, strict=True)) if left != right]
    if not where:
        return _Parted(chosen, [])
    exact = wide_logits(native, whole, reference_dtype(dtype))[ids.shape[1] - 1 :]
    apart = [_apart(at, chosen[at], tokens[at], plain[at], exact[at]) for at in where]
    return _Parted(chosen[: where[0] + 1], apart)


def _apart(position: int, reference: int, target: int, plain: torch.Tensor, exact: torch.Tensor) -> _Apart:
    margin = finite(float(exact.max() - exact[target]))
    return _Apart(position, reference, target, margin, finite(float((plain.to(exact.dtype) - exact).abs().max())))
