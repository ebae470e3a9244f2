"""What a platform offers, what of the inventory that covers, and how gaps are bridged."""
