"""One grammar for rules, subscriptions and queries."""
