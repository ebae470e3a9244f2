"""Runs inside an environment that has aiconfigurator: its predictions as JSON lines, or the time of its search.

python peer_aiconfigurator.py estimate SYSTEM MODEL [MODEL …]      one line for each configuration that it supports
python peer_aiconfigurator.py search SYSTEM DEVICES MODEL          seconds of its default search

It is imported by nothing: the project's own environment does not hold the package.
"""

import functools
import itertools
import json
import logging
import sys
import time
import warnings

LENGTHS = ((4000, 1000), (1000, 500))
BATCHES = (1, 8, 32, 128)
LARGEST_WORLD = 64


def configurations(experts: bool):
    """Degrees (tp, pp, attention dp, expert tp, expert ep) that both planners can express."""
    for tp, pp in itertools.product((1, 2, 4, 8), (1, 2)):
        if not experts:
            yield tp, pp, 1, 1, 1
            continue
        yield tp, pp, 1, tp, 1
        for attention_dp in (1, 2, 4, 8, 16, 32):
            group = tp * attention_dp
            if group > 1 and group * pp <= LARGEST_WORLD:
                yield tp, pp, attention_dp, 1, group


def estimate(system: str, models: list[str]) -> None:
    """Print a line for each configuration, load and model; those that do not fit or are not supported are left out."""
    from aiconfigurator.cli import api
    from aiconfigurator.sdk.models import check_is_moe

    _remember_versions()
    for model in models:
        experts = check_is_moe(model)
        for degrees, (prompt, generated), batch in itertools.product(configurations(experts), LENGTHS, BATCHES):
            tp, pp, attention_dp, expert_tp, expert_ep = degrees
            split = {"moe_tp_size": expert_tp, "moe_ep_size": expert_ep} if experts else {}
            try:
                found = api.cli_estimate(model, system, isl=prompt, osl=generated, batch_size=batch, tp_size=tp, pp_size=pp,
                                         attention_dp_size=attention_dp, **split)  # fmt: skip
            except Exception:  # noqa: BLE001 — whatever it refuses is no point of comparison
                continue
            raw = found.raw
            print(json.dumps({
                "system": system, "model": model, "degrees": degrees, "prompt": prompt, "generated": generated, "batch": batch,
                "tokens_per_s_per_device": raw["tokens/s/gpu"], "tpot_s": found.tpot / 1e3, "ttft_s": found.ttft / 1e3,
                "cache": raw.get("kvcache"), "version": raw.get("version"),
            }), flush=True)  # fmt: skip


def search(system: str, devices: int, model: str) -> None:
    """Print the seconds of its default search, import left out."""
    from aiconfigurator.cli.api import cli_default

    started, cpu = time.perf_counter(), time.process_time()
    cli_default(model_path=model, total_gpus=devices, system=system, isl=4000, osl=1000)
    print(json.dumps({"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}))


def _remember_versions() -> None:
    """It reads hundreds of YAML files for each estimate to find its newest database: read them once."""
    import aiconfigurator_core.sdk.perf_database as core
    from aiconfigurator.sdk import perf_database as outer

    for module, name in itertools.product((core, outer), ("get_latest_database_version", "get_supported_databases")):
        if hasattr(module, name):
            setattr(module, name, functools.lru_cache(maxsize=None)(getattr(module, name)))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    if sys.argv[1] == "estimate":
        estimate(sys.argv[2], sys.argv[3:])
    else:
        search(sys.argv[2], int(sys.argv[3]), sys.argv[4])
