"""The tracer's child process: `python -m dayzero.adapters.trace.child JOB.json ANSWER.json`."""

import gc
import resource
import sys
from pathlib import Path

from dayzero import codec
from dayzero.adapters.trace.exchange import Refusal, TraceAnswer, TraceJob

_MOST_MEMORY_BYTES = 8 << 30
"""A configuration with absurd numbers ends here; the largest published ones take well under 1 GiB."""


def answer_to(job: TraceJob) -> TraceAnswer:
    """Trace the job's configuration, or say in one sentence why not."""
    try:
        from dayzero.adapters.trace.building import BuildError, UnknownTypeError
        from dayzero.adapters.trace.sharding import ShardingError
        from dayzero.adapters.trace.tracing import trace_config
    except ImportError as error:
        return TraceAnswer(None, Refusal.NOT_INSTALLED, str(error))
    try:
        return TraceAnswer(trace_config(job.config, fold_layers=job.fold_layers, options=job.options))
    except UnknownTypeError as error:
        return TraceAnswer(None, Refusal.UNKNOWN, str(error))
    except ShardingError as error:
        return TraceAnswer(None, Refusal.NOT_SHARDED, str(error))
    except BuildError as error:
        return TraceAnswer(None, Refusal.BAD_CONFIG, str(error))
    except Exception as error:  # noqa: BLE001 - the library's code can raise anything; the parent says it to the operator
        return TraceAnswer(None, Refusal.FAILED, f"{type(error).__name__}: {' '.join(str(error).split())[:800]}")


def main() -> None:
    """Read the job, write the answer."""
    gc.disable()  # a short life: collecting among the library's modules costs a tenth of it; the memory limit stands
    job = codec.load(TraceJob, Path(sys.argv[1]).read_bytes())
    resource.setrlimit(resource.RLIMIT_CPU, (job.cpu_s, job.cpu_s))
    _, allowed = resource.getrlimit(resource.RLIMIT_DATA)
    most = _MOST_MEMORY_BYTES if allowed == resource.RLIM_INFINITY else min(allowed, _MOST_MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    Path(sys.argv[2]).write_bytes(codec.dump(answer_to(job)))
    gc.freeze()  # the end of the interpreter would search the library's modules for garbage once more


if __name__ == "__main__":
    main()
