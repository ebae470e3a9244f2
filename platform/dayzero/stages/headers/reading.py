"""Safetensors headers and the index that says which file holds which tensor; never tensor values.

Format: 8 bytes little-endian length, that many bytes of JSON, then the tensors' bytes without holes
(https://github.com/huggingface/safetensors#format, which also sets the 100 MB limit on the JSON).
"""

import json
import struct
from collections import Counter
from collections.abc import Mapping
from math import prod

from dayzero.domain.canonical import Json
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.tensors import DTYPE_BITS, CheckpointIndex, TensorHeader
from dayzero.errors import BadInputError

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
MAX_LISTED = 1000
"""Names that a finding lists; it counts all."""

_MAX_RANK = 32
_MAX_DIMENSION = 2**48
MAX_INDEX_BYTES = 200_000_000
_REMEDY = "Fetch the file again; when it stays like this, the publisher has to mend it."


def header_length(first_bytes: bytes, file: str, file_size_bytes: int) -> int:
    """Length of the JSON header in bytes, from the first 8 bytes of the file; BadInputError when it cannot be true."""
    if len(first_bytes) < LENGTH_BYTES or file_size_bytes < LENGTH_BYTES:
        raise _bad(file, f"has {min(len(first_bytes), file_size_bytes)} bytes, too few for a safetensors header")
    length: int = struct.unpack("<Q", first_bytes[:LENGTH_BYTES])[0]
    if length > MAX_HEADER_BYTES:
        raise _bad(file, f"claims a header of {length} bytes; the format allows {MAX_HEADER_BYTES}")
    if length < 2 or LENGTH_BYTES + length > file_size_bytes:
        raise _bad(file, f"claims a header of {length} bytes in a file of {file_size_bytes} bytes")
    return length


def parse_header(file: str, file_size_bytes: int, header: bytes) -> tuple[TensorHeader, ...]:
    """The tensors of one file, sorted by name, from its JSON header (the bytes after the length).

    BadInputError names file and tensor for a header that lies: wrong size for dtype and shape, overlap, hole, range
    outside of the file, bytes that no tensor owns, a name twice, an unknown dtype.
    """
    data_begin = LENGTH_BYTES + len(header)
    if data_begin > file_size_bytes:
        raise _bad(file, f"has a header of {len(header)} bytes in a file of {file_size_bytes} bytes")
    document = _object(file, header)
    tensors = []
    for name, entry in document.items():
        if name == "__metadata__":
            if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
                raise _bad(file, "has __metadata__ that is no map from text to text")
            continue
        tensors.append(_tensor(file, name, entry, data_begin, file_size_bytes))
    _require_seamless(file, tensors, data_begin, file_size_bytes)
    return tuple(sorted(tensors, key=lambda tensor: tensor.name))


def index_of(headers: Mapping[str, tuple[TensorHeader, ...]], weight_map: bytes | Mapping[str, str] | None) -> CheckpointIndex:
    """One index over all files' headers, checked against model.safetensors.index.json (its bytes or what parse_weight_map
    found in them; None: there is none).

    Findings of severity error: `index.file_missing`, `index.tensor_missing`, `index.tensor_unindexed`, `index.wrong_file`,
    `index.tensor_twice`. BadInputError when the index itself is malformed.
    """
    found: dict[str, TensorHeader] = {}
    twice: list[str] = []
    for file in sorted(headers):
        for tensor in headers[file]:
            if tensor.name in found:
                twice.append(f"{tensor.name} in {found[tensor.name].file} and {tensor.file}")
            found.setdefault(tensor.name, tensor)
    findings = _listed("index.tensor_twice", twice, "tensors are in several files")
    if weight_map is not None:
        mapped = parse_weight_map(weight_map) if isinstance(weight_map, bytes) else weight_map
        findings += _against(mapped, headers, found)
    return CheckpointIndex(tuple(found[name] for name in sorted(found)), tuple(findings))


def parse_weight_map(document: bytes, file: str = "model.safetensors.index.json") -> Mapping[str, str]:
    """Tensor name → file name from the bytes of an index (of safetensors, or of pickles); BadInputError when malformed or
    unsafe."""
    if len(document) > MAX_INDEX_BYTES:
        raise _bad(file, f"has {len(document)} bytes; {MAX_INDEX_BYTES} is the most that is read")
    weight_map = _object(file, document).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise _bad(file, "has no weight_map")
    files: dict[str, str] = {}
    for name, value in weight_map.items():
        if not isinstance(value, str) or not _is_safe(value):
            raise _bad(file, f"names no usable file for tensor {_short(name)}: {_short(repr(value))}")
        files[name] = value
    return files


def _is_safe(path: str) -> bool:
    parts = path.split("/")
    return bool(path) and "\\" not in path and "\0" not in path and not any(part in ("", ".", "..") for part in parts)


def _against(
    mapped: Mapping[str, str], headers: Mapping[str, tuple[TensorHeader, ...]], found: Mapping[str, TensorHeader]
) -> list[Finding]:
    absent_files = sorted(set(mapped.values()) - set(headers))
    missing = [f"{name} ({file})" for name, file in sorted(mapped.items()) if name not in found]
    wrong = [
        f"{name} (index: {file}, header: {found[name].file})"
        for name, file in sorted(mapped.items())
        if name in found and found[name].file != file
    ]
    unindexed = [f"{name} ({found[name].file})" for name in sorted(set(found) - set(mapped))]
    return [
        *_listed("index.file_missing", absent_files, "files that the index names are not there"),
        *_listed("index.tensor_missing", missing, "tensors that the index names are in no file"),
        *_listed("index.wrong_file", wrong, "tensors lie in another file than the index says"),
        *_listed("index.tensor_unindexed", unindexed, "tensors are in no index"),
    ]


def _listed(code: str, names: list[str], what: str) -> list[Finding]:
    if not names:
        return []
    shown = ", ".join(_short(name) for name in names[:5]) + (" …" if len(names) > 5 else "")
    message = f"{len(names)} {what}: {shown}"
    listed = tuple(_short(name) for name in names[:MAX_LISTED])
    return [Finding(code, _short(names[0]), message, Severity.ERROR, {"count": len(names)}, listed)]


def _object(file: str, document: bytes) -> dict[str, Json]:
    try:
        value = json.loads(document.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except _DuplicateKeyError as error:
        raise _bad(file, f"names {_short(str(error))} twice in its header") from error
    except (ValueError, RecursionError) as error:
        raise _bad(file, f"has a header that is no JSON: {_short(str(error))}") from error
    if not isinstance(value, dict):
        raise _bad(file, f"has a header that is a JSON {type(value).__name__}, not an object")
    return value


class _DuplicateKeyError(Exception):
    pass


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _DuplicateKeyError(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return result


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _tensor(file: str, name: str, entry: Json, data_begin: int, file_size_bytes: int) -> TensorHeader:
    if not isinstance(entry, dict):
        raise _bad(file, f"describes tensor {_short(name)} by no object")
    dtype, shape = entry.get("dtype"), _integers(entry.get("shape"))
    offsets = _integers(entry.get("data_offsets"))
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise _bad(file, f"gives tensor {_short(name)} the dtype {_short(repr(dtype))}, which the format does not know")
    if shape is None or len(shape) > _MAX_RANK or any(size > _MAX_DIMENSION for size in shape):
        raise _bad(file, f"gives tensor {_short(name)} an impossible shape {_short(repr(entry.get('shape')))}")
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _bad(file, f"gives tensor {_short(name)} impossible offsets {_short(repr(entry.get('data_offsets')))}")
    begin, end = data_begin + offsets[0], data_begin + offsets[1]
    if end > file_size_bytes:
        raise _bad(file, f"places tensor {_short(name)} up to byte {_short(str(end))} of {file_size_bytes}")
    bits = prod(shape) * DTYPE_BITS[dtype]
    if bits != 8 * (end - begin):
        takes = f"{dtype} {_short(repr(list(shape)))} takes {_short(str(bits))} bits"
        raise _bad(file, f"gives tensor {_short(name)} {end - begin} bytes, but {takes}")
    return TensorHeader(name, dtype, shape, file, begin, end)


def _integers(value: Json) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    numbers = tuple(item for item in value if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**63)
    return numbers if len(numbers) == len(value) else None


def _require_seamless(file: str, tensors: list[TensorHeader], data_begin: int, file_size_bytes: int) -> None:
    at, before = data_begin, "its header"
    for tensor in sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end)):
        if tensor.begin < at:
            raise _bad(file, f"lets tensor {_short(tensor.name)} overlap {before} by {at - tensor.begin} bytes")
        if tensor.begin > at:
            raise _bad(file, f"leaves a hole of {tensor.begin - at} bytes before tensor {_short(tensor.name)}")
        at, before = tensor.end, _short(tensor.name)
    if at != file_size_bytes:
        raise _bad(file, f"holds {file_size_bytes - at} bytes after {before} that no tensor owns")


def _short(text: str) -> str:
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= 160 else clean[:157] + "…"


def _bad(file: str, what: str) -> BadInputError:
    return BadInputError(f"{file} {what}.", remedy=_REMEDY)
