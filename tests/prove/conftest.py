"""The proofs use the model of the end-to-end suites."""

from e2e.conftest import small_model

__all__ = ["small_model"]
