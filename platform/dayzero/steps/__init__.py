"""One function a pipeline step: load nouns through the ports, call a stage or a port, save what came out."""
