"""The one place where ports meet adapters. A name is imported when it is asked for: a command pays for what it uses."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
