"""The child process: one request in, one noun of domain/observations out.

    main([REQUEST.json, DOCUMENT.json, PARENT_PID, open|closed])    in a process forked by the nursery

OPERATORS writes OperatorErrors, LAYERS LayerErrors, TOWERS TowersObserved, DECODING DecodeErrors, PERPLEXITY
PerplexityObserved, PARALLEL ParallelObserved, MEMORY MemoryObserved, GENERATION GenerationObserved, ENCODING
EncodingObserved, TASKS TasksObserved, TRAINING TrainingObserved, CACHES CachesObserved, SENSITIVE SensitiveObserved, BRIDGE
BridgesObserved, UNPICKLE Unpickled, BASELINE
BaselinesRecorded.
A refusal or failure leaves one sentence in reason.txt beside the document.
"""

import traceback
from pathlib import Path

from dayzero import containment
from dayzero.codec import dump, load
from dayzero.domain.runs import Observation, RunRequest
from dayzero.errors import BadInputError, DayzeroError

REFUSED_CODE, CRASHED_CODE, MEMORY_CODE = 3, 1, 5


def observe(request: RunRequest) -> object:
    """The observation's noun; imports what only this observation needs. Option `dummy_seed` asks for weights made here."""
    if "dummy_seed" in request.options:
        from dayzero.adapters.runners.dummy_weights import with_dummy_weights

        request = with_dummy_weights(request, Path("dummy"))
    match request.observation:
        case Observation.OPERATORS:
            from dayzero.adapters.runners.observe_operators import observe_operators

            return observe_operators(request)
        case Observation.LAYERS:
            from dayzero.adapters.runners.observe_layers import observe_layers

            return observe_layers(request)
        case Observation.TOWERS:
            from dayzero.adapters.runners.observe_towers import observe_towers

            return observe_towers(request)
        case Observation.DECODING:
            from dayzero.adapters.runners.observe_decoding import observe_decoding

            return observe_decoding(request)
        case Observation.PERPLEXITY:
            from dayzero.adapters.runners.observe_perplexity import observe_perplexity

            return observe_perplexity(request)
        case Observation.PARALLEL:
            from dayzero.adapters.runners.observe_parallel import observe_parallel

            return observe_parallel(request)
        case Observation.MEMORY:
            from dayzero.adapters.runners.observe_memory import observe_memory

            return observe_memory(request)
        case Observation.GENERATION:
            from dayzero.adapters.runners.observe_generation import observe_generation

            return observe_generation(request)
        case Observation.ENCODING:
            from dayzero.adapters.runners.observe_encoding import observe_encoding

            return observe_encoding(request)
        case Observation.TASKS:
            from dayzero.adapters.runners.observe_tasks import observe_tasks

            return observe_tasks(request)
        case Observation.TRAINING:
            from dayzero.adapters.runners.observe_training import observe_training

            return observe_training(request)
        case Observation.CACHES:
            from dayzero.adapters.runners.observe_caches import observe_caches

            return observe_caches(request)
        case Observation.SENSITIVE:
            from dayzero.adapters.runners.observe_sensitive import observe_sensitive

            return observe_sensitive(request)
        case Observation.BRIDGE:
            from dayzero.adapters.runners.observe_bridge import observe_bridge

            return observe_bridge(request)
        case Observation.BASELINE:
            from dayzero.adapters.runners.observe_baseline import observe_baseline

            return observe_baseline(request)
        case Observation.UNPICKLE:
            from dayzero.adapters.runners.unpickling import unpickle

            return unpickle(request)
        case _:
            raise BadInputError(f"this runner does not observe {request.observation.value}.", remedy="Ask the right one.")


def main(arguments: list[str]) -> int:
    """Run the request; the exit code says how it ended."""
    request_path, document_path, parent, network = arguments
    containment.die_with_parent(int(parent))
    reason = Path("reason.txt")
    if network == "closed":
        still_open = containment.close_network()
        print(f"network: {still_open or 'closed'}", flush=True)
        if still_open:
            reason.write_text(f"the network stayed open: {still_open}")
    try:
        document = dump(observe(load(RunRequest, Path(request_path).read_bytes())))
        partial = Path(f"{document_path}.part")
        partial.write_bytes(document)
        partial.rename(document_path)
    except DayzeroError as error:
        reason.write_text(str(error))
        traceback.print_exc()
        return REFUSED_CODE
    except MemoryError:
        reason.write_text("python could not allocate memory")
        traceback.print_exc()
        return MEMORY_CODE
    except Exception as error:  # noqa: BLE001 - the boundary: whatever a model's code raises becomes an outcome
        reason.write_text(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}")
        traceback.print_exc()
        return MEMORY_CODE if type(error).__name__ == "OutOfMemoryError" else CRASHED_CODE
    return 0
