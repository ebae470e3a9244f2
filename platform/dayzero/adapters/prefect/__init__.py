"""Prefect: pools, deployments and automations, the orchestrator, and how endings show in its UI."""
