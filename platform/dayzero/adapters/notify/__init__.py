"""Notifiers: signed webhooks, and chat or mail over Apprise."""
