"""The runner: each observation in its own process group, with limits and a scrubbed environment.

    runner = SubprocessRunner(work_dir)
    request = RunRequest(Observation.LAYERS, "cpu", model_dir=str(folder), options={"tokens": 128, "compile": True})
    limits = RunLimits(timeout_s=600, memory_bytes=8 << 30)
    outcome = runner.run(request, limits)
    judged = judging.judge(request, outcome, codec.load, limits, evidence=())

Options by observation (all optional): `tokens` (length of the input), `compile` (default true), `new_tokens`, `prompt`;
for PARALLEL `shards_dir` and `degrees` of the request. `child.py` names what writes which noun of domain/observations.
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import dayzero
from dayzero.adapters.runners.nursery_client import ChildReport, NurseryClient, NurseryKeeper
from dayzero.adapters.runners.process_memory import GroupMemory
from dayzero.codec import dump
from dayzero.domain.platforms import Stack
from dayzero.domain.runs import RunEnd, RunLimits, RunOutcome, RunRequest
from dayzero.domain.stacks import INSTALLED, StackRecipe, over

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CXX", "CC", "LD_LIBRARY_PATH",
             "VIRTUAL_ENV", "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")  # fmt: skip
"""Variables that a child may see; everything else (tokens, database addresses, proxies) stays outside."""
STACK_PACKAGES = ("torch", "transformers", "safetensors", "tokenizers", "numpy")
POLL_S = 0.05
DOCUMENT_LIMIT_BYTES = 64 << 20
LOG_TAIL_BYTES = 6000
REFUSED_CODE, MEMORY_CODE = 3, 5


@dataclass(frozen=True, slots=True)
class _Ended:
    """How the child went: exit code (negative: signal), the runner's own reason for killing it, peak memory, time.

    `failure` is said where there was no child, or the process that started it is gone.
    """

    code: int | None
    failure: str | None
    killed_for: RunEnd | None
    peak_bytes: int | None
    wall_s: float


class SubprocessRunner:
    """Runs observations in child processes of this host, forked from one process that has imported what they need.

    `work_dir` takes each run's folder (removed afterwards) and, unless `compile_cache` names another folder, the compiler's
    cache. The memory limit is held by polling the resident memory of the whole group, not by RLIMIT_AS: torch reserves
    address space that it never touches. `packages` is a folder where the recipe's own lie, found
    before the installed ones. Runs may overlap. `close` (also at exit, also when garbage) ends the processes.
    """

    def __init__(
        self,
        work_dir: Path,
        python: str = sys.executable,
        platform_slug: str = "cpu",
        compile_cache: Path | None = None,
        recipe: StackRecipe = INSTALLED,
        packages: Path | None = None,
    ) -> None:
        self._work_dir = work_dir.resolve()
        self._platform = platform_slug
        self._recipe = recipe
        cache = (compile_cache or work_dir / "compiled").resolve()
        self._keeper = NurseryKeeper(lambda: _start_nursery(python, work_dir.resolve(), cache, packages))
        self._finalizer = weakref.finalize(self, self._keeper.close)

    def close(self) -> None:
        """End the processes that are kept between runs; a later run starts them anew."""
        self._keeper.close()

    def stack(self) -> Stack:
        """Versions by package metadata, the machine, and the C++ compiler; torch is not imported."""
        components = {"python": platform.python_version(), "machine": platform.machine()}
        for package in STACK_PACKAGES:
            try:
                components[package] = version(package)
            except PackageNotFoundError:
                continue
        components["cpu"] = _vector_width()
        compiler = _compiler()
        if compiler:
            components["cxx"] = compiler
        return over(Stack(self._platform, components), self._recipe)

    def run(self, request: RunRequest, limits: RunLimits) -> RunOutcome:
        """Run one observation; whatever the child does comes back as an outcome."""
        self._work_dir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=self._work_dir))
        try:
            (folder / "home").mkdir()
            (folder / "request.json").write_bytes(dump(_with_limit(request, limits)))
            ended = self._attend(folder, limits)
            return _outcome(folder, ended, limits)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _attend(self, folder: Path, limits: RunLimits) -> _Ended:
        began = time.monotonic()
        report = self._keeper.nursery().start(folder, "open" if limits.network else "closed")
        try:
            killed_for, peak = _watch(report, limits, began)
        finally:
            report.close()
        return _Ended(report.code, report.failure, killed_for, peak or None, time.monotonic() - began)


def _with_limit(request: RunRequest, limits: RunLimits) -> RunRequest:
    """The request with the memory limit among its options, so that the child can live within it; its result is no other."""
    if limits.memory_bytes is None or "memory_limit_bytes" in request.options:
        return request
    return replace(request, options={**request.options, "memory_limit_bytes": limits.memory_bytes})


def _start_nursery(python: str, work_dir: Path, compile_cache: Path, packages: Path | None) -> NurseryClient:
    command = [python, "-m", "dayzero.adapters.runners.nursery"]
    return NurseryClient(command, _environment(compile_cache, packages), work_dir)


def _environment(compile_cache: Path, packages: Path | None) -> dict[str, str]:
    """What the nursery sees, and its children but for HOME, TMPDIR and HF_HOME; `packages` come before the installed ones."""
    found_first = [*([str(packages)] if packages else []), *filter(None, [_source_root()])]
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return environment | {
        "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(found_first),
        # The nursery forks, so no library may start a thread while it is imported.
        "OPENBLAS_NUM_THREADS": "1",
        # Precompiled headers live in the temporary folder, which is new for each run: they would be made again for every
        # run, also where all that they serve is found in the cache.
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(compile_cache), "GLOO_SOCKET_IFNAME": "lo", "OMP_WAIT_POLICY": "PASSIVE",
    }  # fmt: skip


def _source_root() -> str:
    """Where this package lies when it is run from its sources; empty when it is installed."""
    root = Path(dayzero.__file__).resolve().parent.parent
    return "" if root.name in {"site-packages", "dist-packages"} else str(root)


def _watch(report: ChildReport, limits: RunLimits, began: float) -> tuple[RunEnd | None, int]:
    """Follow the child to its end; end its group when it takes more than it may, or when this thread is interrupted."""
    killed_for: RunEnd | None = None
    memory: GroupMemory | None = None
    try:
        while not report.over:
            report.listen(POLL_S)
            if report.pid is not None and memory is None:
                memory = GroupMemory(report.pid, limits.memory_bytes)
            if killed_for is not None or report.over:
                continue
            if memory is not None and memory.exceeds_limit():
                killed_for = RunEnd.OUT_OF_MEMORY
            elif time.monotonic() - began > limits.timeout_s:
                killed_for = RunEnd.TIMED_OUT
            if killed_for is not None:
                report.kill()
    finally:
        if report.code is None and (report.pid is not None or not report.over):
            report.kill()
    return killed_for, memory.peak_bytes if memory is not None else 0


def _outcome(folder: Path, ended: _Ended, limits: RunLimits) -> RunOutcome:
    end, reason = _end(folder, ended, limits)
    document = b""
    if end is RunEnd.COMPLETED:
        document, problem = _document(folder / "document.json")
        if problem:
            end, reason = RunEnd.CRASHED, problem
    return RunOutcome(end, document, reason, _tail(folder / "log.txt"), ended.wall_s, ended.peak_bytes)


def _end(folder: Path, ended: _Ended, limits: RunLimits) -> tuple[RunEnd, str]:
    if ended.killed_for is RunEnd.TIMED_OUT:
        return RunEnd.TIMED_OUT, f"stopped after its limit of {limits.timeout_s:g} s"
    if ended.killed_for is RunEnd.OUT_OF_MEMORY:
        return RunEnd.OUT_OF_MEMORY, f"used {ended.peak_bytes} bytes of memory, limit {limits.memory_bytes}"
    if ended.code is None:
        return RunEnd.CRASHED, ended.failure or "nothing is known of the child's end"
    said = _read_text(folder / "reason.txt")
    if ended.code == 0:
        return RunEnd.COMPLETED, said
    if ended.code == REFUSED_CODE:
        return RunEnd.REFUSED, said or "the child refused and did not say why"
    if ended.code == MEMORY_CODE:
        return RunEnd.OUT_OF_MEMORY, said or "the child ran out of memory"
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        hint = "; the kernel may have run out of memory" if -ended.code == signal.SIGKILL else ""
        return RunEnd.CRASHED, f"the child was ended by {name}{hint}"
    return RunEnd.CRASHED, said or f"the child ended with code {ended.code}"


def _document(path: Path) -> tuple[bytes, str | None]:
    try:
        size = path.stat().st_size
        if size > DOCUMENT_LIMIT_BYTES:
            return b"", f"the child wrote {size} bytes, limit {DOCUMENT_LIMIT_BYTES}"
        return path.read_bytes(), None
    except OSError as error:
        return b"", f"the child ended well but left no document ({error.strerror})"


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4000).decode(errors="replace").strip()
    except OSError:
        return ""


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _vector_width() -> str:
    """The widest vector extensions that change which kernels torch picks."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown"
    flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "").split()
    wanted = ("amx_bf16", "avx512_bf16", "avx512_vnni", "avx512f", "avx2", "fma", "sve", "bf16", "asimd")
    return " ".join(flag for flag in wanted if flag in flags) or "baseline"


def _compiler() -> str | None:
    """The C++ compiler's first line, or None."""
    for name in filter(None, (os.environ.get("CXX"), "g++", "clang++")):
        found = shutil.which(name)
        if found is None:
            continue
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
        return said.splitlines()[0] if said else found
    return None
