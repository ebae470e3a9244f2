"""When and how subscribers are told."""
