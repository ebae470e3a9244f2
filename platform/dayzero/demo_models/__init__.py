"""The models of the demo and the tests, made from a fixed seed or from an installed package."""
