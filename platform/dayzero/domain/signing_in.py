"""People who sign in at a provider of identities: what is kept meanwhile, and who came back."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pending:
    """A sign-in that was begun: what the answer must carry (state, nonce), and the secret that only we know (verifier)."""

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody whom a provider vouches for. `subject` is theirs for good at this issuer; `name` is for people to read."""

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]
