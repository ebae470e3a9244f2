"""What a profile lacks, a template for a new one, how a device is probed."""
