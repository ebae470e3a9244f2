"""The template of a platform profile for a machine of one's own, every field explained."""

_TEXT = """\
# Platform {slug}: a profile of your own. `dayzero platform check {slug}.toml` says what is wrong with it and what is missing.
# Put it into the folder that DAYZERO_PLATFORMS_DIR names. Everything is per torch device (what torch counts as one).
#
# Every figure has a value, a unit, a source and a status:
#   published    the vendor states it            third-party  somebody else does
#   probed       measured on the machine         assumed      taken to be so; say why in the source
# A figure that you do not know is left out (leave its lines commented): whatever needs it says so, and nothing is guessed.

slug = "{slug}"
title = "{slug}"

# Take the fields that are not stated here from a platform that is known (dayzero platform ls):
# base = "h100"

# The device type that torch uses: cpu, cuda, npu, hpu, xpu, musa, mlu, …
torch_device = "{torch_device}"

# A short name that packages use for the vendor (flag-gems: nvidia, amd, ascend, cambricon, mthreads, hygon, metax …).
# vendor = ""

# Dtypes that the device computes in, as torch names them; float8 and float4 stand for every encoding of theirs.
dtypes = ["float32", "bfloat16", "float16"]

# notes = "What a reader should know."

# Memory of one device, in bytes: 80 GB is 80e9, 80 GiB is 85899345920. Without it no plan can be judged to fit.
# [memory_bytes]
# value = 80e9
# unit = "B"
# source = "where you read it"
# status = "published"

# Bytes a second between a device and its own memory. Estimates of speed need it.
# [memory_bandwidth_bytes_per_s]
# value = 3.35e12
# unit = "B/s"
# source = "where you read it"
# status = "published"

# Dense rates by dtype: 989 TFLOP/s is 989e12. Figures "with sparsity" are twice as large and not meant. Unit OP/s for integers.
# [flops_per_s.bfloat16]
# value = 989e12
# unit = "FLOP/s"
# source = "where you read it"
# status = "published"

# Devices joined by one kind of link, the smallest group first; bandwidth per device and direction, latency of one message.
# [[link_domains]]
# name = "node"
# devices = 8
# [link_domains.bandwidth_bytes_per_s]
# value = 450e9
# unit = "B/s"
# source = "where you read it"
# status = "published"
# [link_domains.latency_s]
# value = 1e-6
# unit = "s"
# source = "where you read it"
# status = "assumed"

# [devices_per_node]
# value = 8
# unit = "device"
# source = "our own machines"
# status = "probed"

# Network between nodes, per device and direction: 400 Gb/s is 50e9.
# [nic_bytes_per_s]
# value = 50e9
# unit = "B/s"
# source = "where you read it"
# status = "published"

# [host_link_bytes_per_s]
# value = 64e9
# unit = "B/s"
# source = "where you read it"
# status = "published"

# [plugin_package]
# value = "the package that brings the device to torch"
# source = "where you read it"
# status = "published"

# [collectives]
# value = "nccl"
# source = "where you read it"
# status = "published"

# [engines.vllm]
# value = "the package that brings the engine to the device"
# source = "where you read it"
# status = "published"

# Arithmetic that the device does not have, although packages for its family offer it:
# [unsupported_dtypes.float8]
# value = "no"
# source = "where you read it"
# status = "published"

# Operators that are known not to work here, each with its reason; they count as missing until they are bridged:
# [excluded_operators]
# "aten.bmm.default" = "wrong results with non-contiguous inputs on this driver"
"""


def platform_template(slug: str, torch_device: str = "cuda") -> str:
    """A TOML profile that loads as it is: what must be stated is stated, all else is a comment to fill in."""
    return _TEXT.format(slug=slug, torch_device=torch_device)
