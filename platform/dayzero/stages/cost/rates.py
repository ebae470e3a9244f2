"""In which arithmetic a model's matrices are multiplied on a platform, and how fast."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dayzero.domain.architecture import ModelSpec
from dayzero.domain.findings import Finding, Severity
from dayzero.domain.platforms import PlatformProfile

_NATIVE = {"bfloat16": ("bfloat16", "bf16", "float16"), "float16": ("float16", "fp16", "bfloat16"),
           "float32": ("float32", "fp32")}  # fmt: skip
_ARITHMETIC = {
    "fp8_block": ("float8",), "fp8_tensor": ("float8",), "fp8_channel": ("float8",), "mxfp8": ("float8",),
    "nvfp4": ("float4",), "mxfp4": ("float8",), "int8": ("int8",), "int4_group": (),
}  # fmt: skip
"""Arithmetic that a scheme's weights are multiplied in; MXFP4 weights keep 8-bit activations (W4A8) where there are any."""


@dataclass(frozen=True, slots=True)
class Rates:
    """FLOP/s by scheme of the weights (None: native), the native dtype, and what had to be computed in another dtype."""

    by_scheme: Mapping[str | None, float]
    native_dtype: str
    findings: tuple[Finding, ...]


def rates_of(spec: ModelSpec, profile: PlatformProfile) -> Rates | None:
    """The rates for the model's weights; None when nobody states the rate of the native dtype (or a stand-in of its width).

    Weights in a dtype that the platform has no arithmetic for are dequantized and multiplied in the native dtype (a finding
    says so).
    """
    native = next((name for name in _NATIVE.get(spec.native_dtype or "", ()) if name in profile.flops_per_s), None)
    if native is None:
        return None
    rates: dict[str | None, float] = {None: profile.flops_per_s[native].value}
    findings = list(_stand_in(spec, profile, native))
    for group in spec.quantization.groups if spec.quantization else ():
        usable = [name for name in _ARITHMETIC.get(group.scheme, ())
                  if name in profile.flops_per_s and name not in profile.unsupported_dtypes]  # fmt: skip
        rates[group.scheme] = profile.flops_per_s[usable[0]].value if usable else rates[None]
        if not usable:
            message = f"{profile.slug} states no arithmetic for {group.scheme} weights: they are multiplied in {native}"
            findings.append(Finding("estimate.dequantized", group.scheme, message, Severity.NOTE))
    return Rates(rates, native, tuple(findings))


def _stand_in(spec: ModelSpec, profile: PlatformProfile, native: str) -> Iterator[Finding]:
    if native not in (spec.native_dtype or "", "bf16", "fp16", "fp32"):
        yield Finding("estimate.other_dtype", native, f"nobody states the {spec.native_dtype} rate of {profile.slug}: that of "
                      f"{native} was taken", Severity.NOTE)  # fmt: skip
