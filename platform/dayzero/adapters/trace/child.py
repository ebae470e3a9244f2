"""The tracer's child process: `python -m dayzero.adapters.trace.child ANSWER.json`, with the job on its standard input.

The libraries are imported before the job is read, so that a parent may start the child before it knows the job.
"""

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
    from dayzero.adapters.trace.building import BuildError, UnknownTypeError
    from dayzero.adapters.trace.sharding import ShardingError
    from dayzero.adapters.trace.tracing import trace_config

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


def _not_installed() -> str | None:
    """Import what tracing needs; why it cannot be, or None."""
    try:
        import dayzero.adapters.trace.tracing  # noqa: F401 - imported for the time that it takes
    except ImportError as error:
        return str(error)
    return None


def main() -> None:
    """Read the job, write the answer; nothing to read: nobody asks any more."""
    gc.disable()  # a short life: collecting among the library's modules costs a tenth of it; the memory limit stands
    lacking = _not_installed()
    asked = sys.stdin.buffer.read()
    if not asked:
        return
    job = codec.load(TraceJob, asked)
    resource.setrlimit(resource.RLIMIT_CPU, (job.cpu_s, job.cpu_s))
    _, allowed = resource.getrlimit(resource.RLIMIT_DATA)
    most = _MOST_MEMORY_BYTES if allowed == resource.RLIM_INFINITY else min(allowed, _MOST_MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    answer = answer_to(job) if lacking is None else TraceAnswer(None, Refusal.NOT_INSTALLED, lacking)
    Path(sys.argv[1]).write_bytes(codec.dump(answer))
    gc.freeze()  # the end of the interpreter would search the library's modules for garbage once more


if __name__ == "__main__":
    main()
